package lab

import (
	"cmp"
	"fmt"
	"html"
	"os"
)

// RedirectFile writes a page that redirects a browser to an address, and returns its path and a function that removes
// it. Only this user may read the page. The browser gets the page instead of the address, since the address has the
// token and all users of a machine can read the arguments of a process. Call Setup first.
func (l *Lab) RedirectFile(address string) (path string, remove func(), err error) {
	f, err := os.CreateTemp(l.dir("tmp"), "open-*.html") // Its mode is 0600.
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.Remove(f.Name()) }
	_, err = fmt.Fprintf(f, `<!DOCTYPE html>
<html>
<head><meta charset="utf-8"><title>JupyterLab</title><meta http-equiv="refresh" content="0;url=%[1]s"></head>
<body><a href="%[1]s">Open JupyterLab</a></body>
</html>
`, html.EscapeString(address))
	if err = cmp.Or(err, f.Close()); err != nil {
		remove()
		return "", nil, err
	}
	return f.Name(), remove, nil
}
