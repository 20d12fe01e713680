//go:build unix && !linux

package campaign

// smallDisk mounts nothing: files may not grow beyond a length instead.
func smallDisk(string, int) (grow func() error, unmount func(), mounted bool) { return nil, nil, false }
