//go:build !unix

package campaign

import "errors"

func mkfifo(string) error { return errors.ErrUnsupported }
