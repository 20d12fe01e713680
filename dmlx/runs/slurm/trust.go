package slurm

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/gradient-surgery/dml/dmlx/internal/durable"
)

// A store may be a group's, so what lies in its folder .slurm may be anyone's. The rule: what decides which commands run
// is taken from there only if it is the current user's own.
//
//   - A manifest is sent, or a task of it is made, only if it and its submission's folder are the user's, no symbolic
//     link leads to them, only the user may write to the manifest, and no one but the user and the group to the folder.
//     Other users' submissions are listed and their runs are waited for, but nothing of them is sent.
//   - A batch script is made from the manifest each time it is sent. It is never read from the store.
//   - Programs lie in a folder to which only the user may write, and the batch script, of which sbatch keeps a copy,
//     checks that the program is the user's and has the digest that was submitted, before it starts what it has checked.

// submissionName is how submissions are named.
var submissionName = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z-]*$`)

// runName is how runs are named.
var runName = regexp.MustCompile(`^[0-9a-f]{12}$`)

// digestText is a SHA-256.
var digestText = regexp.MustCompile(`^[0-9a-f]{64}$`)

// owned tells why something is not the current user's own, if so: another's, a symbolic link, or one to which others
// may write. forbidden are the bits of its mode that let them.
func owned(path string, forbidden fs.FileMode) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch mode := info.Mode(); {
	case !mode.IsRegular() && !mode.IsDir():
		return fmt.Errorf("%s is neither a file nor a folder", path)
	case !ok || int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user", path)
	case mode.Perm()&forbidden != 0:
		return fmt.Errorf("%s can be written by others: its mode is %04o", path, mode.Perm())
	}
	return nil
}

// mine tells why a submission is not the current user's own, if so: then nothing of it may be sent or made.
func (s *Submission) checkOwner() error {
	err := durable.NoLink(s.store.Dir, filepath.Join(folder, s.ID, manifestFile))
	if err == nil {
		err = owned(s.dir(), 0o002)
	}
	if err == nil {
		err = owned(s.path(manifestFile), 0o022)
	}
	if err != nil {
		return fmt.Errorf("%s is not yours to send: %w", s.ID, err)
	}
	return nil
}

// foreign tells whether a submission that has been written is not the user's own.
func (s *Submission) foreign() bool { return s.hasMark(manifestFile) && s.checkOwner() != nil }

// bin is the user's folder of programs in the store: the first user's is bin, another's has the number of the user.
func (s *Submission) bin() string {
	dir := filepath.Join(s.store.Dir, folder, "bin")
	if info, err := os.Lstat(dir); err == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Geteuid() {
			dir += fmt.Sprintf("-%d", os.Geteuid())
		}
	}
	return dir
}

// makeFolders makes the submission's folder and those in it. Into those in it, where Slurm writes as the user, only
// the user may write; the group may mark the submission.
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

// sharedFolder makes a folder as the umask lets, or takes the one that is there. It is sticky if it is the user's:
// what is in it can be renamed or removed by its owners alone.
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

// ownFolder makes a folder to which only the user may write, whatever the umask is, or checks that it is one.
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
