//go:build unix

package campaign

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// killTraining kills a training again and again at random moments, and lets it end: nothing may be set aside, and the
// result is that of an undisturbed run.
func killTraining(t *try) {
	s := pick(t, t.specs)
	store := filepath.Join(t.dir, "runs")
	for range 1 + t.IntN(8) {
		child := t.start(nil, t.with(store, s.args...)...)
		if t.IntN(2) == 0 {
			child.endIn(time.Duration(t.Int64N(int64(s.took) * 5 / 4)))
		} else { // In the middle of writing.
			for n, last := t.IntN(60), ""; n >= 0 && !child.ended(); {
				if now := sizes(filepath.Join(store, s.hash)); now != last {
					n, last = n-1, now
				}
			}
		}
		child.kill()
		t.judge(t.check(child.wait(), s.args...), store, s, "a training that was not killed in time")
		if t.IntN(3) == 0 {
			t.run(t.with(store, "runs", "list", "--json")...)
		}
	}
	t.ends(store, s)
}

// sizes is what a run's folder has, as long as it is.
func sizes(dir string) string {
	var out strings.Builder
	for _, d := range []string{"", "checkpoint", "triplets"} {
		entries, _ := os.ReadDir(filepath.Join(dir, d))
		for _, e := range entries {
			if info, err := e.Info(); err == nil {
				fmt.Fprintln(&out, e.Name(), info.Size())
			}
		}
	}
	return out.String()
}

// ends trains a run to its end, which nothing may hinder any more.
func (t *try) ends(store string, s spec) {
	before := t.bad()
	r := t.run(t.with(store, s.args...)...)
	switch well := t.judge(r, store, s, "after the disturbance"); {
	case r.code != 0:
		t.fail(&t.Lost, "run %s: exit code %d\n%s", s.hash, r.code, r.stderr)
	case !well:
	case asideIn(store):
		t.fail(&t.Lost, "run %s: a sound part of it was set aside\n%s", s.hash, r.stderr)
	case t.bad() == before:
		t.Identical++
	}
}

// fullDisk trains where there is room for a part, and again when there is room.
func fullDisk(t *try) {
	s := pick(t, t.specs)
	mount := filepath.Join(t.dir, "disk")
	t.must(os.MkdirAll(mount, 0o755))
	store := filepath.Join(mount, "runs")
	room := 0 // In kB: for a part of what is to be written, or just enough.
	for _, file := range t.filesIn(filepath.Join(t.store, s.hash)) {
		info, err := os.Stat(file)
		t.must(err)
		room += 4 * int((info.Size()+4095)/4096)
	}
	room = 16 + t.IntN(room*3/2)
	var short func(*exec.Cmd)
	more := func() {}
	if grow, unmount, mounted := smallDisk(mount, room); mounted {
		defer unmount()
		more = func() { t.must(grow()) }
	} else { // Files may not grow beyond a length.
		short = limited(1 + t.IntN(100))
	}
	before := t.bad()
	r := t.runAs(short, t.with(store, s.args...)...)
	refused := r.code != 0
	if !refused {
		t.judge(r, store, s, "on a full disk")
	}
	more()
	if r = t.run(t.with(store, s.args...)...); r.code != 0 {
		t.fail(&t.Lost, "with room again: exit code %d\n%s", r.code, r.stderr)
	} else if t.judge(r, store, s, "with room again") && asideIn(store) {
		t.fail(&t.Lost, "run %s: a sound part of it was set aside\n%s", s.hash, r.stderr)
	}
	switch {
	case t.bad() > before:
	case refused:
		t.Refused++
	default:
		t.Identical++
	}
}

// manyProcesses has 8 processes use one store at once, of which some are killed.
func manyProcesses(t *try) {
	store := filepath.Join(t.dir, "runs")
	chosen := []spec{pick(t, t.specs), pick(t, t.specs)}
	if t.IntN(2) == 0 { // Two of them had begun.
		k := t.IntN(len(t.stopped))
		chosen[0], store = t.specs[t.of[k]], t.fresh("runs", t.stopped[k])
	}
	type step struct {
		args []string
		s    *spec
		kill time.Duration // 0 is never.
	}
	plans := make([][]step, 8)
	for p := range plans {
		for range 1 + t.IntN(3) {
			s := &chosen[t.IntN(2)]
			st := step{}
			switch t.IntN(6) {
			default:
				st = step{args: t.with(store, s.args...), s: s}
			case 0:
				st.args = t.with(store, "runs", "list", "--json")
			case 1:
				st.args = t.with(store, "runs", "verify", "--json")
			}
			if t.IntN(3) == 0 {
				st.kill = 1 + time.Duration(t.Int64N(int64(4*s.took)))
			}
			plans[p] = append(plans[p], st)
		}
	}
	before := t.bad()
	var group sync.WaitGroup
	for _, plan := range plans {
		group.Go(func() {
			for _, st := range plan {
				child := t.start(nil, st.args...)
				if st.kill > 0 {
					child.endIn(st.kill)
					child.kill()
				}
				r := t.check(child.wait(), st.args...)
				if st.s != nil && !t.judge(r, store, *st.s, "among 8 processes") && st.kill == 0 && r.code != 0 {
					t.fail(&t.Lost, "run %s among 8 processes: exit code %d\n%s", st.s.hash, r.code, r.stderr)
				}
			}
		})
	}
	group.Wait()
	for _, s := range chosen {
		r := t.run(t.with(store, s.args...)...)
		if !t.judge(r, store, s, "after 8 processes") && r.code != 0 {
			t.fail(&t.Lost, "run %s after 8 processes: exit code %d\n%s", s.hash, r.code, r.stderr)
		}
	}
	if found := damagedIn(store); found != "" {
		t.fail(&t.Lost, "8 processes: %s was set aside though nothing was damaged", found)
	}
	if t.bad() == before {
		t.Identical++
	}
}

// damagedIn names something that was set aside as damaged; "" if there is nothing.
func damagedIn(store string) string {
	entries, _ := os.ReadDir(store)
	for _, e := range entries {
		if strings.Contains(e.Name(), ".damaged-") {
			return e.Name()
		}
	}
	return ""
}
