package datasets

import "fmt"

// origin says where a published set is to be had.
type origin struct {
	page    string  // What says more.
	archive archive // What [Get] fetches; url is empty where nothing can be fetched.
	terms   string  // Why nothing can be fetched.
	want    string  // What has to be there in the end.
}

// archive is a file to be fetched. Size and MD5 are 0 and empty where none is published.
type archive struct {
	file, url string
	size      int64
	md5       string
}

// advice says in a clause how to come by the set.
func (o *origin) advice(alias, root string) string {
	if o.archive.url != "" {
		return fmt.Sprintf("get it by dmlx data get %s, or unpack %s from %s into %s (%s can name another folder)", alias, o.want, o.page, root, DataEnv)
	}
	return fmt.Sprintf("%s; get %s from %s and put it into %s (%s can name another folder)", o.terms, o.want, o.page, root, DataEnv)
}
