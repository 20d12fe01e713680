package datasets

import "fmt"

// origin says where a published set comes from.
type origin struct {
	page    string  // the set's web page
	archive archive // the file to fetch; url is empty where none can be
	terms   string  // why nothing can be fetched
	want    string  // the files that the set consists of
}

// archive is a file to be fetched. Size and MD5 are 0 and empty where none is published.
type archive struct {
	file, url string
	size      int64
	md5       string
}

// advice returns a clause that says how to get the set.
func (o *origin) advice(root string) string {
	a := o.archive
	if a.url == "" {
		return fmt.Sprintf("%s; get %s from %s and put them into %s (%s can name another folder)", o.terms, o.want, o.page,
			root, DataEnv)
	}
	sum := ""
	if a.md5 != "" {
		sum = fmt.Sprintf(", whose MD5 is %s,", a.md5)
	}
	return fmt.Sprintf("fetch %s (curl -C - -O %s)%s and unpack it into %s (%s can name another folder); its page is %s",
		a.file, a.url, sum, root, DataEnv, o.page)
}

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

// Sources returns where the published sets can be fetched from, in the order of [Published].
func Sources() []Source {
	var all []Source
	for _, s := range publishedSets {
		a := s.origin.archive
		all = append(all, Source{s.name, s.alias, s.origin.page, a.url, a.size, a.md5, s.origin.want, s.origin.terms})
	}
	return all
}
