// Package slurmtest starts a real Slurm on this machine, for tests: a controller and a node of their own.
package slurmtest

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

//go:embed slurm.sh
var script []byte

// ErrNone is that of a machine on which no Slurm can be started: a test is skipped for it.
var ErrNone = errors.New("no Slurm can be started here")

// Cluster is a Slurm that runs. Its commands find it where SLURM_CONF is its Conf.
type Cluster struct {
	// Hidden is a folder that the node does not see; "" if that cannot be made here.
	Hidden string

	dir string
}

// Start starts a Slurm. It needs the programs of Slurm and munge, and root, or the error is [ErrNone].
func Start() (*Cluster, error) {
	for _, name := range []string{"sbatch", "munged", "slurmctld", "slurmd"} {
		if _, err := exec.LookPath(name); err != nil {
			if _, err := os.Stat("/usr/sbin/" + name); err != nil {
				return nil, fmt.Errorf("%w: %s is not installed (Debian: apt-get install slurm-wlm munge)", ErrNone, name)
			}
		}
	}
	if os.Getuid() != 0 {
		return nil, fmt.Errorf("%w: only root can", ErrNone)
	}
	dir, err := os.MkdirTemp("/tmp", "slurm") // A short path: there is a socket in it.
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir}
	if err := os.WriteFile(c.script(), script, 0o755); err != nil {
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
func (c *Cluster) Conf() string { return filepath.Join(c.dir, "slurm.conf") }

// Do disturbs it: by a verb of slurm.sh, which says what there is.
func (c *Cluster) Do(verb string) error {
	if out, err := exec.Command(c.script(), verb, c.dir).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", verb, err, out)
	}
	return nil
}

// Stop stops it and all that it runs, and leaves nothing.
func (c *Cluster) Stop() error {
	err := c.Do("stop")
	time.Sleep(200 * time.Millisecond) // It writes its state.
	return errors.Join(err, os.RemoveAll(c.dir))
}

func (c *Cluster) script() string { return filepath.Join(c.dir, "slurm.sh") }
