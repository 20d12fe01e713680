package runs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/experiment"
	"github.com/gradient-surgery/dml/dmlx/experiment/slurm"
)

// cluster starts a Slurm of the test's own, or skips the test where there is none.
func cluster(t *testing.T) {
	t.Helper()
	for _, name := range []string{"sbatch", "munged", "slurmctld", "slurmd"} {
		if _, err := exec.LookPath(name); err != nil {
			if _, err := os.Stat("/usr/sbin/" + name); err != nil {
				t.Skipf("no Slurm can be started here: %s is not installed (Debian: apt-get install slurm-wlm munge)", name)
			}
		}
	}
	if os.Getuid() != 0 {
		t.Skip("no Slurm can be started here: only root can")
	}
	dir, err := os.MkdirTemp("/tmp", "slurm") // A short path: there is a socket in it.
	if err != nil {
		t.Fatal(err)
	}
	script := func(verb string) ([]byte, error) {
		return exec.Command("../../dmlx/experiment/slurm/testdata/slurm.sh", verb, dir).CombinedOutput()
	}
	t.Cleanup(func() {
		_, _ = script("stop")
		time.Sleep(200 * time.Millisecond) // It writes its state.
		_ = os.RemoveAll(dir)
	})
	if out, err := script("start"); err != nil {
		t.Fatalf("the Slurm that is installed here does not start: %v: %s", err, out)
	}
	t.Setenv("SLURM_CONF", filepath.Join(dir, "slurm.conf"))
}

// A cell sends runs to a cluster, with the command that it builds, and tells how far they are.
func TestSlurm(t *testing.T) {
	cluster(t)
	t.Setenv("DMLX_PRESET", "smoke")
	t.Setenv("DMLX_STORE", filepath.Join(t.TempDir(), "runs"))
	t.Setenv("GOMLX_BACKEND", "go")
	t.Setenv("DMLX_SIMD", "off") // Tasks would build themselves anew.
	store := Store()
	var specs []experiment.Spec
	for seed := range uint64(2) {
		spec, err := Preset().Spec("minicar", dmlx.Rule{}, seed+1)
		if err != nil {
			t.Fatal(err)
		}
		specs = append(specs, spec)
	}
	o := slurm.Options{Poll: 300 * time.Millisecond}
	said := captured(t, func() {
		if err := Slurm(store, o)(t.Context(), experiment.Jobs(specs...)); err != nil {
			t.Error(err)
		}
		if err := Follow(store, o); err != nil {
			t.Error(err)
		}
	})
	for _, spec := range specs {
		if r, err := store.Get(spec.Hash()); err != nil || r.Hash != spec.Hash() {
			t.Error(r, err)
		}
	}
	if !strings.Contains(said, "Slurm: 100 % 2 of 2 done") {
		t.Errorf("said %q", said)
	}
}

func TestSlurmWithoutOne(t *testing.T) {
	t.Setenv("DMLX_PRESET", "smoke")
	t.Setenv("DMLX_STORE", t.TempDir())
	spec, err := Preset().Spec("minicar", dmlx.Rule{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	err = Slurm(Store(), slurm.Options{Program: "any"})(t.Context(), experiment.Jobs(spec))
	if err == nil || !strings.Contains(err.Error(), "sbatch, a command of Slurm, is not on this machine's PATH") {
		t.Error(err)
	}
	err = Slurm(Store(), slurm.Options{})(t.Context(), experiment.Jobs(spec))
	if err == nil || !strings.Contains(err.Error(), "cannot be built") {
		t.Error(err)
	}
}
