//go:build unix

package slurm

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

//go:embed testdata/slurm.sh
var slurmScript []byte

// errNoSlurm is that of a machine on which no Slurm can be started: a test is skipped for it.
var errNoSlurm = errors.New("no Slurm can be started here")

// slurmCluster is a real Slurm that runs on this machine, for tests: a controller and a node of their own. Its commands
// find it where SLURM_CONF is its Conf.
type slurmCluster struct {
	// Hidden is a folder that the node does not see; "" if that cannot be made here.
	Hidden string

	dir string
}

// startSlurm starts a Slurm. It needs the programs of Slurm and munge, and root, or the error is [errNoSlurm].
func startSlurm() (*slurmCluster, error) {
	for _, name := range []string{"sbatch", "munged", "slurmctld", "slurmd"} {
		if _, err := exec.LookPath(name); err != nil {
			if _, err := os.Stat("/usr/sbin/" + name); err != nil {
				return nil, fmt.Errorf("%w: %s is not installed (Debian: apt-get install slurm-wlm munge)", errNoSlurm, name)
			}
		}
	}
	if os.Getuid() != 0 {
		return nil, fmt.Errorf("%w: only root can", errNoSlurm)
	}
	dir, err := os.MkdirTemp("/tmp", "slurm") // A short path: there is a socket in it.
	if err != nil {
		return nil, err
	}
	c := &slurmCluster{dir: dir}
	if err := os.WriteFile(c.script(), slurmScript, 0o755); err != nil {
		return nil, err
	}
	if exec.Command("unshare", "-m", "true").Run() == nil {
		c.Hidden = filepath.Join(dir, "hidden-from-node")
		if err := os.Mkdir(c.Hidden, 0o755); err != nil {
			return nil, err
		}
	}
	if out, err := exec.Command(c.script(), "start", dir, c.Hidden).CombinedOutput(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("the Slurm that is installed here does not start: %w: %s", err, out)
	}
	return c, nil
}

// Conf is the path of its configuration.
func (c *slurmCluster) Conf() string { return filepath.Join(c.dir, "slurm.conf") }

// Do disturbs it: by a verb of slurm.sh, which says what there is.
func (c *slurmCluster) Do(verb string) error {
	if out, err := exec.Command(c.script(), verb, c.dir).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", verb, err, out)
	}
	return nil
}

// Stop stops it and all that it runs, and leaves nothing.
func (c *slurmCluster) Stop() error {
	err := c.Do("stop")
	time.Sleep(200 * time.Millisecond) // It writes its state.
	return errors.Join(err, os.RemoveAll(c.dir))
}

func (c *slurmCluster) script() string { return filepath.Join(c.dir, "slurm.sh") }
