package slurm

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/gradient-surgery/dml/dmlx/durable"
)

// A group may share a store, so that anyone in it may write to its folder .slurm. The rule: files there decide which
// commands run only if they belong to the current user.
//
//   - A manifest is submitted, and its tasks are done, only if it and the folder of its submission belong to the user,
//     no symbolic link leads to them, only the user may write the manifest, and only the user and the group may write
//     to the folder. Submissions of other users are listed and followed, but never submitted.
//   - The batch script is generated from the manifest for each submission. It is never read from the store.
//   - Programs are in a folder to which only the user may write. Before the batch script, of which sbatch keeps a copy,
//     starts the program, it checks that the program belongs to the user and has the submitted digest.

// submissionName matches the names of submissions.
var submissionName = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z-]*$`)

// runName matches the hashes of runs.
var runName = regexp.MustCompile(`^[0-9a-f]{12}$`)

// digestText matches a SHA-256.
var digestText = regexp.MustCompile(`^[0-9a-f]{64}$`)

// owned returns an error unless a file or folder belongs to the current user, is no symbolic link, and has none of the
// forbidden permission bits.
func owned(path string, forbidden fs.FileMode) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	switch mode := info.Mode(); {
	case !mode.IsRegular() && !mode.IsDir():
		return fmt.Errorf("%s is neither a file nor a folder", path)
	case durable.Owner(info) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user", path)
	case mode.Perm()&forbidden != 0:
		return fmt.Errorf("%s can be written by others: its mode is %04o", path, mode.Perm())
	}
	return nil
}

// checkOwner returns an error unless the submission belongs to the current user. Only then may its tasks be submitted
// or done.
func (s *Submission) checkOwner() error {
	err := durable.NoLink(s.store.Dir, filepath.Join(folder, s.ID, manifestFile))
	if err == nil {
		err = owned(s.dir(), 0o002)
	}
	if err == nil {
		err = owned(s.path(manifestFile), 0o022)
	}
	if err != nil {
		return fmt.Errorf("%s is not yours to submit: %w", s.ID, err)
	}
	return nil
}

// foreign reports whether a submission with a manifest belongs to another user.
func (s *Submission) foreign() bool { return s.hasMark(manifestFile) && s.checkOwner() != nil }

// bin returns the user's folder for programs in the store: bin for its first user, bin-UID for others.
func (s *Submission) bin() string {
	dir := filepath.Join(s.store.Dir, folder, "bin")
	if info, err := os.Lstat(dir); err == nil && durable.Owner(info) != os.Geteuid() {
		dir += fmt.Sprintf("-%d", os.Geteuid())
	}
	return dir
}

// makeFolders creates the folder of the submission and its subfolders. Only the user may write to the subfolders, where
// Slurm writes as the user; the group may add marks to the submission.
func (s *Submission) makeFolders() error {
	if err := sharedFolder(filepath.Dir(s.dir()), 0o777); err != nil {
		return err
	}
	if err := sharedFolder(s.dir(), 0o775); err != nil {
		return err
	}
	for _, d := range []string{logDir, failedDir, stoppedDir} {
		if err := ownFolder(s.path(d)); err != nil {
			return err
		}
	}
	return nil
}

// sharedFolder creates a folder with the permissions of the umask, unless it exists. If it belongs to the user it is
// made sticky, so that only the owners of its files can rename or remove them.
func sharedFolder(path string, perm fs.FileMode) error {
	if err := os.MkdirAll(path, perm); err != nil {
		return err
	}
	if err := durable.NoLink(filepath.Dir(path), filepath.Base(path)); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil || owned(path, 0) != nil {
		return err
	}
	return os.Chmod(path, info.Mode().Perm()|fs.ModeSticky)
}

// ownFolder creates a folder to which only the user may write, independent of the umask, or checks an existing one.
func ownFolder(path string) error {
	err := os.Mkdir(path, 0o755)
	if err != nil && !os.IsExist(err) {
		return err
	}
	if err := owned(path, 0); err != nil {
		return err
	}
	return os.Chmod(path, 0o755)
}
