package datasets

import (
	"fmt"
	"path"
)

// Source says where a published set can be fetched from.
type Source struct {
	Name  string `json:"name"`            // as in the paper
	Alias string `json:"alias"`           // on the command line
	Page  string `json:"page"`            // what says more about it
	URL   string `json:"url,omitempty"`   // of the archive, empty if it cannot be fetched
	Bytes int64  `json:"bytes,omitempty"` // of the archive, 0 if not published
	MD5   string `json:"md5,omitempty"`   // of the archive, empty if not published
	Want  string `json:"want"`            // what is needed of it
	Terms string `json:"terms,omitempty"` // why it cannot be fetched, if so
}

// advice returns a clause that says how to get the set.
func (s Source) advice(root string) string {
	if s.URL == "" {
		return fmt.Sprintf("%s; get %s from %s and put them into %s (%s can name another folder)", s.Terms, s.Want, s.Page,
			root, DataEnv)
	}
	sum := ""
	if s.MD5 != "" {
		sum = fmt.Sprintf(", whose MD5 is %s,", s.MD5)
	}
	return fmt.Sprintf("fetch %s (curl -C - -O %s)%s and unpack it into %s (%s can name another folder); its page is %s",
		path.Base(s.URL), s.URL, sum, root, DataEnv, s.Page)
}

// Sources returns where the published sets can be fetched from, in the order of [Published].
func Sources() []Source {
	var all []Source
	for _, s := range publishedSets {
		all = append(all, s.Source)
	}
	return all
}
