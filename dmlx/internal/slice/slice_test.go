package slice

import (
	"slices"
	"strconv"
	"testing"
)

func TestMap(t *testing.T) {
	if got := Map([]int{3, 1, 2}, strconv.Itoa); !slices.Equal(got, []string{"3", "1", "2"}) {
		t.Error(got)
	}
	if got := Map(nil, strconv.Itoa); got == nil || len(got) != 0 {
		t.Errorf("of none: %#v", got)
	}
}

func TestAddNew(t *testing.T) {
	if got := AddNew([]int{3, 1}, 1, 2, 2, 3); !slices.Equal(got, []int{3, 1, 2}) {
		t.Error(got)
	}
	if got := AddNew[int](nil); got != nil {
		t.Errorf("of none: %#v", got)
	}
}

func TestCount(t *testing.T) {
	if got := Count([]int{3, 1, 2}, func(v int) bool { return v > 1 }); got != 2 {
		t.Error(got)
	}
}
