package nbruns

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/runs/slurm"
	"github.com/gradient-surgery/dml/dmlx/runs/slurm/slurmtest"
)

// cluster starts a Slurm for the test, or skips the test if Slurm is not installed.
func cluster(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a Slurm")
	}
	c, err := slurmtest.Start()
	if errors.Is(err, slurmtest.ErrNone) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("SLURM_CONF", c.Conf())
}

// A cell submits runs to a cluster, with the command that it builds, and waits for them.
func TestSlurm(t *testing.T) {
	cluster(t)
	t.Setenv("DMLX_PRESET", "smoke")
	t.Setenv("DMLX_STORE", filepath.Join(t.TempDir(), "runs"))
	t.Setenv("GOMLX_BACKEND", "go")
	store := Store()
	var specs []runs.Spec
	for seed := range uint64(2) {
		spec, err := Preset().Spec("minicar", dmlx.Rule{}, seed+1)
		if err != nil {
			t.Fatal(err)
		}
		specs = append(specs, spec)
	}
	if err := Slurm(store, slurm.Options{})(t.Context(), runs.Jobs(specs...)); err != nil {
		t.Error(err)
	}
	for _, spec := range specs {
		if r, err := store.Get(spec.Hash()); err != nil || r.Hash != spec.Hash() {
			t.Error(r, err)
		}
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
	err = Slurm(Store(), slurm.Options{Program: "cluster_test.go"})(t.Context(), runs.Jobs(spec))
	if err == nil || !strings.Contains(err.Error(), "sbatch, a command of Slurm, is not on the PATH of this machine") {
		t.Error(err)
	}
	err = Slurm(Store(), slurm.Options{})(t.Context(), runs.Jobs(spec))
	if err == nil || !strings.Contains(err.Error(), "cannot be built") {
		t.Error(err)
	}
}
