package datasets

import (
	"embed"
	"fmt"
	"hash"
	"io/fs"
)

// sources is the code that draws images, decoders the code that decodes image files. Both are hashed into the cache's
// keys, so that images made before an edit are not used after it.
var (
	//go:embed datasets.go drawn.go images.go internal/drawn/*.go
	sources embed.FS
	//go:embed decode.go resize.go
	//go:embed internal/jpeg/color.go internal/jpeg/huffman.go internal/jpeg/jpeg.go internal/jpeg/scan.go
	//go:embed internal/jpeg/transform.go
	decoders embed.FS
)

// hashSources writes the files' names and contents, in the order of their names. An embedded file can be read; a file
// that cannot would change the key, not stop anything.
func hashSources(h hash.Hash, files fs.FS) {
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		source, err := fs.ReadFile(files, name)
		fmt.Fprintf(h, "%q %d\n%s", name, len(source), source)
		return err
	})
	if err != nil {
		fmt.Fprintln(h, err)
	}
}
