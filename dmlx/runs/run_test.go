package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomlx/gomlx/core/graph"

	_ "github.com/gradient-surgery/dml/dmlx/backend/xla"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// childEnv makes the test binary a process that runs the spec in it; see child.
const childEnv = "DMLX_TEST_RUN"

func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		os.Exit(child(spec, os.Getenv(childEnv+"_STORE")))
	}
	cache, err := os.MkdirTemp("", "dmlx")
	if err != nil {
		panic(err)
	}
	os.Setenv("XDG_CACHE_HOME", cache) // Drawn images stay out of the user's cache.
	code := m.Run()
	_ = os.RemoveAll(cache)
	os.Exit(code)
}

// child runs a spec on the Go backend in a store.
func child(raw, dir string) int {
	var spec Spec
	err := json.Unmarshal([]byte(raw), &spec)
	if err == nil {
		var store *Store
		if store, err = OpenStore(dir); err == nil {
			pause, _ := time.ParseDuration(os.Getenv(childEnv + "_PAUSE")) // So that a kill finds it at work; none by default.
			_, err = Run(context.Background(), goBackend(), store, spec, func(p Progress) {
				if p.OnImages() == "" {
					fmt.Println("step", p.Step)
				}
				time.Sleep(pause)
			})
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

var goBackend = sync.OnceValue(func() *train.Trainer {
	b, err := backend.Go()
	if err != nil {
		panic(err)
	}
	return train.New(&backend.Choice{Backend: b, Name: "go"})
})

// choices are the Go backend and, where it is another, the one that backend.Open chooses.
var trainers = sync.OnceValue(func() []*train.Trainer {
	out := []*train.Trainer{goBackend()}
	if c, err := train.Open(); err == nil && c.Name != "go" {
		out = append(out, c)
	}
	return out
})

// testStore opens a store in a folder that warns into a list.
func testStore(t *testing.T) (*Store, *[]string) {
	t.Helper()
	s, err := OpenStore(filepath.Join(t.TempDir(), "runs"))
	if err != nil {
		t.Fatal(err)
	}
	var warnings []string
	s.Warn = func(m string) { warnings = append(warnings, m) }
	return s, &warnings
}

func mustRun(t *testing.T, c *train.Trainer, s *Store, spec Spec) *Result {
	t.Helper()
	r, err := Run(t.Context(), c, s, spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// runInTwoGoes stops a run after five steps, and goes on with it.
func runInTwoGoes(t *testing.T, c *train.Trainer, s *Store, spec Spec) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	steps := 0
	_, err := Run(ctx, c, s, spec, func(Progress) {
		if steps++; steps == 5 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("a run that was stopped: %v", err)
	}
	mustRun(t, c, s, spec)
}

// outcome is all that a run leaves and that must not depend on how often it was stopped.
func outcome(t *testing.T, s *Store, hash string) map[string]string {
	t.Helper()
	r, err := s.Get(hash)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{"recall": fmt.Sprint(r.Recall, r.MAPAtR, r.Overlap)}
	for name := range r.Files {
		raw, err := os.ReadFile(filepath.Join(s.Path(hash), name))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(raw)
	}
	return out
}

// reference is the outcome of an undisturbed run of tiny on the Go backend.
var reference = sync.OnceValues(func() (map[string]string, error) {
	dir, err := os.MkdirTemp("", "dmlx")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	s, err := OpenStore(dir)
	if err != nil {
		return nil, err
	}
	r, err := Run(context.Background(), goBackend(), s, tiny(), nil)
	if err != nil {
		return nil, err
	}
	out := map[string]string{"recall": fmt.Sprint(r.Recall, r.MAPAtR, r.Overlap)}
	for name := range r.Files {
		raw, err := os.ReadFile(filepath.Join(s.Path(r.Hash), name))
		if err != nil {
			return nil, err
		}
		out[name] = string(raw)
	}
	return out, nil
})

func sameAsReference(t *testing.T, s *Store, spec Spec) {
	t.Helper()
	want, err := reference()
	if err != nil {
		t.Fatal(err)
	}
	got := outcome(t, s, spec.Hash())
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s differs from that of an undisturbed run", name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d files, want %d", len(got), len(want))
	}
}

func TestRunLeavesWhatItFound(t *testing.T) {
	for _, c := range trainers() {
		t.Run(c.Name, func(t *testing.T) {
			s, warnings := testStore(t)
			spec := tiny()
			spec.Data, spec.ImagesPerClass = "minishop", 2 // Queries and a gallery.
			var seen []Progress
			r, err := Run(t.Context(), c, s, spec, func(p Progress) { seen = append(seen, p) })
			if err != nil {
				t.Fatal(err)
			}
			if len(seen) != 9+2 || seen[8].Epoch != 3 || seen[8].Step != 9 || seen[8].Left != 0 || seen[8].OnImages() != "" {
				t.Errorf("progress %+v", seen)
			} else if q, g := seen[9], seen[10]; q.OnImages() != "9 of 18 images embedded" || g.Embedded != 18 || g.Step != 9 ||
				g.Steps != 9 {
				t.Errorf("progress at the end %+v", seen[9:])
			}
			for _, name := range []string{specFile, resultFile, train.MetricsFile, train.EmbeddingsFile, train.LabelsFile,
				train.GalleryEmbeddingsFile, train.GalleryLabelsFile} {
				if _, err := os.Stat(filepath.Join(s.Path(r.Hash), name)); err != nil {
					t.Error(err)
				}
			}
			if r.Backend != c.Name || r.Diverged != "" || r.Recall[1] <= 0 || r.Queries != 9 || r.DataDigest == "" {
				t.Errorf("%+v", r)
			}
			epochs, err := s.Metrics(r.Hash)
			if err != nil || len(epochs) != 3 || epochs[0].LR != 0.1 ||
				float32(epochs[2].LR) != 0.01 || epochs[2].Step != 9 {
				t.Errorf("metrics %+v, %v", epochs, err)
			}
			test, gallery, err := s.Embeddings(r.Hash)
			if err != nil || test.Dim != 8 || len(test.Labels) != 9 || len(gallery.Labels) != 9 {
				t.Errorf("embeddings %+v, %+v, %v", test, gallery, err)
			}
			if m, err := retrieval.Evaluate(t.Context(), c.Backend, test, gallery, []int{1}); err != nil ||
				m.Recall[1] != r.Recall[1] || m.MAPAtR != r.MAPAtR {
				t.Errorf("measured again: %+v, %v", m, err)
			}
			sap, san, err := s.Triplets(r.Hash)
			if total := epochs[0].Triplets + epochs[1].Triplets + epochs[2].Triplets; err != nil || len(sap) != total ||
				len(san) != total {
				t.Errorf("%d triplets, metrics count %d, %v", len(sap), total, err)
			}
			again, err := Run(t.Context(), nil, s, spec, func(Progress) { t.Error("a finished run was run again") })
			if err != nil || !reflect.DeepEqual(again.Recall, r.Recall) {
				t.Errorf("read again: %+v, %v", again, err)
			}
			entries, err := s.List()
			if err != nil || len(entries) != 1 || entries[0].Result == nil {
				t.Errorf("list %+v, %v", entries, err)
			}
			if len(*warnings) > 0 {
				t.Error(*warnings)
			}
		})
	}
}

func TestStoppedRunsGoOnBitByBit(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	for _, c := range trainers() {
		t.Run(c.Name, func(t *testing.T) {
			whole, _ := testStore(t)
			mustRun(t, c, whole, tiny())
			want := outcome(t, whole, tiny().Hash())
			s, _ := testStore(t)
			first := 1
			if c.Name != "go" {
				first = 4 // Each attempt compiles for seconds: two will do.
			}
			for stop := first; ; stop += 2 { // After so many steps of this attempt.
				ctx, cancel := context.WithCancel(t.Context())
				steps := 0
				_, err := Run(ctx, c, s, tiny(), func(Progress) {
					if steps++; steps == stop {
						cancel()
					}
				})
				cancel()
				if err == nil {
					break
				}
				if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "stopped ") {
					t.Fatal(err)
				}
			}
			if got := outcome(t, s, tiny().Hash()); !reflect.DeepEqual(got, want) {
				t.Error("a run that was stopped ends elsewhere")
			}
		})
	}
}

// printed is what a process has printed.
type printed struct {
	text    []byte
	steps   int           // Once it has told of so many steps,
	reached chan struct{} // this is closed.
}

func (p *printed) Write(text []byte) (int, error) {
	p.text = append(p.text, text...)
	if p.steps > 0 && bytes.Count(p.text, []byte("step")) >= p.steps {
		p.steps = 0
		close(p.reached)
	}
	return len(text), nil
}

func (p *printed) String() string { return string(p.text) }

// spawn runs a spec in another process.
func spawn(t *testing.T, s *Store, spec Spec, steps int) (*exec.Cmd, *printed) {
	t.Helper()
	raw, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(raw), childEnv+"_STORE="+s.Dir)
	out := &printed{steps: steps, reached: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

// runWithKills runs a spec in one process after the other, each of which is killed at a moment after a random number of
// steps, until one gets to the end.
func runWithKills(t *testing.T, s *Store, spec Spec) {
	t.Helper()
	const pause = 30 * time.Millisecond
	t.Setenv(childEnv+"_PAUSE", pause.String())
	t.Setenv("TMPDIR", t.TempDir())
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	kills, epoch, longer := 0, 0, 0
	for range 50 {
		cmd, out := spawn(t, s, spec, 1+rng.IntN(spec.Steps()/2)+longer) // The first is killed before its end.
		moment, ended := time.Duration(rng.Int64N(int64(pause))), make(chan struct{})
		go func() {
			select {
			case <-out.reached:
				time.Sleep(moment)
				_ = cmd.Process.Kill()
			case <-ended:
			}
		}()
		err := cmd.Wait()
		close(ended)
		if err == nil {
			if t.Logf("finished after %d kills", kills); kills == 0 {
				t.Error("no process was killed")
			}
			for _, dir := range []string{os.TempDir(), s.Path(spec.Hash()), filepath.Join(s.Path(spec.Hash()),
				train.CheckpointDir)} {
				if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
					t.Errorf("left over: %v", left)
				}
			}
			return
		}
		if cmd.ProcessState.ExitCode() != -1 {
			t.Fatalf("%v: %s", err, out)
		}
		kills++
		if e := s.Entry(spec.Hash()); e.Epoch > epoch {
			epoch = e.Epoch
		} else {
			longer++
		}
	}
	t.Fatalf("the run does not finish: %d kills, %d of %d epochs", kills, epoch, spec.Epochs)
}

func TestKilledRunsGoOnBitByBit(t *testing.T) {
	s, warnings := testStore(t)
	runWithKills(t, s, tiny())
	sameAsReference(t, s, tiny())
	if len(*warnings) > 0 {
		t.Error(*warnings)
	}
}

func TestTwoProcesses(t *testing.T) {
	s, _ := testStore(t)
	a, outA := spawn(t, s, tiny(), 0)
	b, outB := spawn(t, s, tiny(), 0)
	if err := errors.Join(a.Wait(), b.Wait()); err != nil {
		t.Fatal(err, outA, outB)
	}
	if steps := strings.Count(outA.String()+outB.String(), "step"); steps != tiny().Steps() {
		t.Errorf("two processes made %d steps of one run of %d", steps, tiny().Steps())
	}
	sameAsReference(t, s, tiny())
}

// halfway makes a run that has been stopped in its last epoch.
func halfway(t *testing.T, c *train.Trainer, s *Store) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := Run(ctx, c, s, tiny(), func(p Progress) {
		if p.Epoch == 3 {
			cancel()
		}
	}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return s.Path(tiny().Hash())
}

func TestFaultyCheckpointsAreSetAside(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	edit := func(path string, change func(string) string) error {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, []byte(change(string(raw))), 0o600)
	}
	state := filepath.Join(train.CheckpointDir, train.CheckpointFile)
	weights := filepath.Join(train.CheckpointDir, "weights-002.safetensors")
	for want, damage := range map[string]func(dir string) error{
		"was written on backend abacus": func(dir string) error {
			return edit(filepath.Join(dir, state), func(s string) string {
				var c train.Checkpoint
				if err := json.Unmarshal([]byte(s), &c); err != nil {
					t.Fatal(err)
				}
				c.Backend = "abacus"
				c.Sum = c.Checksum()
				raw, _ := json.Marshal(c)
				return string(raw)
			})
		},
		"checksum of state.json": func(dir string) error {
			return edit(filepath.Join(dir, state), func(s string) string {
				return strings.Replace(s, `"epoch": 2`, `"epoch": 1`, 1)
			})
		},
		"is damaged: state.json": func(dir string) error {
			return edit(filepath.Join(dir, state), func(s string) string { return s[:len(s)/2] })
		},
		"checksum of weights-002": func(dir string) error {
			return edit(filepath.Join(dir, weights), func(s string) string { return s[:len(s)-1] + "!" })
		},
		"weights-002.safetensors: no such file": func(dir string) error { return os.Remove(filepath.Join(dir, weights)) },
		"checksum of triplets/epoch-001.npy": func(dir string) error {
			return os.Truncate(filepath.Join(dir, train.TripletsDir, "epoch-001.npy"), 150)
		},
		"checksum of triplets/epoch-002.npy": func(dir string) error {
			return edit(filepath.Join(dir, train.TripletsDir, "epoch-002.npy"), func(s string) string {
				return s[:len(s)-1] + string(s[len(s)-1]^1)
			})
		},
		"epoch-001.npy: no such file": func(dir string) error {
			return os.Remove(filepath.Join(dir, train.TripletsDir, "epoch-001.npy"))
		},
		"is damaged: \"result.json\"": func(dir string) error {
			return edit(filepath.Join(dir, state), func(s string) string {
				var c train.Checkpoint
				if err := json.Unmarshal([]byte(s), &c); err != nil {
					t.Fatal(err)
				}
				c.Triplets["result.json"] = ""
				c.Sum = c.Checksum()
				raw, _ := json.Marshal(c)
				return string(raw)
			})
		},
		"does not belong here: its spec": func(dir string) error {
			return edit(filepath.Join(dir, specFile), func(s string) string {
				return strings.Replace(s, `"seed": 1`, `"seed": 2`, 1)
			})
		},
		"a damaged spec.json": func(dir string) error {
			return edit(filepath.Join(dir, specFile), func(string) string { return "\x00" })
		},
		"contains a checkpoint but no spec.json": func(dir string) error { return os.Remove(filepath.Join(dir, specFile)) },
	} {
		t.Run(want, func(t *testing.T) {
			s, warnings := testStore(t)
			if err := damage(halfway(t, goBackend(), s)); err != nil {
				t.Fatal(err)
			}
			mustRun(t, goBackend(), s, tiny())
			sameAsReference(t, s, tiny())
			if len(*warnings) != 1 || !strings.Contains((*warnings)[0], want) || !strings.Contains((*warnings)[0], "set aside") {
				t.Errorf("warnings %q, want one with %q", *warnings, want)
			}
		})
	}
}

// What was damaged after it was checked is not sealed as sound.
func TestTripletsDamagedDuringARun(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	s, warnings := testStore(t)
	if _, err := Run(t.Context(), goBackend(), s, tiny(), func(p Progress) {
		if p.Step == p.Steps {
			if err := os.WriteFile(filepath.Join(s.Path(tiny().Hash()), train.TripletsDir, "epoch-001.npy"), nil,
				0o600); err != nil {
				t.Error(err)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	mustRun(t, goBackend(), s, tiny())
	sameAsReference(t, s, tiny())
	if len(*warnings) != 1 || !strings.Contains((*warnings)[0], "checksum of triplets/epoch-001.npy") {
		t.Errorf("%q", *warnings)
	}
}

func TestFaultyResultsAreSetAside(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	for want, damage := range map[string]func(dir string) error{
		"wrong checksum": func(dir string) error {
			path := filepath.Join(dir, resultFile)
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, bytes.Replace(raw, []byte(`"map_at_r": 0.`), []byte(`"map_at_r": 0.9`), 1), 0o600)
		},
		"damaged: unexpected end":   func(dir string) error { return os.Truncate(filepath.Join(dir, resultFile), 100) },
		"lacks the file labels.npy": func(dir string) error { return os.Remove(filepath.Join(dir, train.LabelsFile)) },
		"checksum of embeddings": func(dir string) error {
			return os.Truncate(filepath.Join(dir, train.EmbeddingsFile), 128)
		},
	} {
		t.Run(want, func(t *testing.T) {
			s, warnings := testStore(t)
			r := mustRun(t, goBackend(), s, tiny())
			if err := damage(s.Path(r.Hash)); err != nil {
				t.Fatal(err)
			}
			if entries, err := s.List(); err != nil || len(entries) != 1 {
				t.Errorf("list: %+v, %v", entries, err)
			} else if e := s.Entry(r.Hash); e.Bad == "" || entries[0].Bad != e.Bad && want != "checksum of embeddings" {
				t.Errorf("list: %+v, entry: %+v", entries[0], e)
			}
			unlock, err := s.lock(t.Context(), r.Hash)
			if err != nil {
				t.Fatal(err)
			}
			if _, found, err := s.Lookup(tiny()); found || err != nil || len(*warnings) != 0 {
				t.Errorf("while another process works on it: found %v, %v, %q", found, err, *warnings)
			}
			unlock()
			if _, found, err := s.Lookup(tiny()); found || err != nil {
				t.Errorf("found %v, %v", found, err)
			}
			mustRun(t, goBackend(), s, tiny())
			sameAsReference(t, s, tiny())
			if len(*warnings) != 1 || !strings.Contains((*warnings)[0], want) {
				t.Errorf("warnings %q, want one with %q", *warnings, want)
			}
		})
	}
}

// A result with a field that this program does not know is left alone: a newer one made it.
func TestNewerResultsAreKept(t *testing.T) {
	s, warnings := testStore(t)
	r := mustRun(t, goBackend(), s, tiny())
	path := filepath.Join(s.Path(r.Hash), resultFile)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw = bytes.Replace(raw, []byte(`"map_at_r":`), []byte(`"mean_reciprocal_rank": 0.5, "map_at_r":`), 1)
	raw = bytes.Replace(raw, []byte(r.Sum), []byte(strings.Repeat("0", len(r.Sum))), 1) // Which has summed that, too.
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, found, err := s.Lookup(tiny()); found || err == nil ||
		!strings.Contains(err.Error(), resultFile+" was written by a newer version") {
		t.Errorf("found %v, %v", found, err)
	}
	if entries, err := s.List(); err != nil || len(entries) != 1 || !strings.Contains(entries[0].Bad, "newer version") {
		t.Errorf("%+v, %v", entries, err)
	}
	if again, err := os.ReadFile(path); err != nil || !bytes.Equal(again, raw) || len(*warnings) > 0 {
		t.Errorf("it was touched: %v, %q", err, *warnings)
	}
}

// Stopped when only its measures are missing, a run ends at once, and the next one goes on to the same bits.
func TestStoppedBeforeItsMeasures(t *testing.T) {
	s, _ := testStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := Run(ctx, goBackend(), s, tiny(), func(p Progress) {
		if p.Step == p.Steps {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	mustRun(t, goBackend(), s, tiny())
	sameAsReference(t, s, tiny())
}

func TestStoreThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenStore(filepath.Join(file, "runs")); err == nil || strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
	s, _ := testStore(t)
	if err := os.WriteFile(s.Path(tiny().Hash()), nil, 0o600); err != nil { // Where the run's directory is to be.
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), goBackend(), s, tiny(), nil); err == nil || strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
}

func TestRemoveAndFind(t *testing.T) {
	s, _ := testStore(t)
	r := mustRun(t, goBackend(), s, tiny())
	if h, err := s.Find(r.Hash[:4]); err != nil || h != r.Hash {
		t.Errorf("found %q, %v", h, err)
	}
	for _, bad := range []string{"", "zz", "../.."} {
		if _, err := s.Find(bad); err == nil {
			t.Errorf("found %q", bad)
		}
		if err := s.Remove(bad); err == nil {
			t.Errorf("removed %q", bad)
		}
	}
	unlock, err := s.lock(t.Context(), r.Hash)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(r.Hash); err == nil || !strings.Contains(err.Error(), "another process works on") {
		t.Errorf("a run in use was removed: %v", err)
	}
	unlock()
	if err := s.Remove(r.Hash); err != nil {
		t.Fatal(err)
	}
	if entries, _ := s.List(); len(entries) != 0 {
		t.Errorf("still there: %+v", entries)
	}
}

func TestDivergedRunsAreResults(t *testing.T) {
	for _, c := range trainers() {
		t.Run(c.Name, func(t *testing.T) {
			s, _ := testStore(t)
			spec := tiny()
			spec.LR = 1e30
			r := mustRun(t, c, s, spec)
			if !strings.Contains(r.Diverged, "not finite from step") || r.Recall != nil {
				t.Errorf("%+v", r)
			}
			epochs, err := s.Metrics(r.Hash)
			if err != nil || len(epochs) == 0 {
				t.Errorf("%+v, %v", epochs, err)
			}
			if st := MeanRecall([]*Result{mustRun(t, c, s, spec)}, 1); st.Diverged != 1 || st.N != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

func TestBatchesWithoutTriplets(t *testing.T) {
	s, _ := testStore(t)
	spec := tiny()
	spec.ImagesPerClass, spec.ClassesPerBatch = 1, 4 // No positives.
	r := mustRun(t, goBackend(), s, spec)
	epochs, err := s.Metrics(r.Hash)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range epochs {
		if e.EmptyBatches != 3 || e.Triplets != 0 || e.GradientNorm != 0 {
			t.Errorf("%+v", e)
		}
	}
}

func TestOwnRuleIsTrained(t *testing.T) {
	s, _ := testStore(t)
	spec, err := tiny().by(objectives.ByRule(dmlx.Rule{Pair: dmlx.PairWeight{Name: "square",
		Of: func(b *dmlx.Batch) (p, n *graph.Node) {
			return graph.Square(graph.OneMinus(b.Sap)), graph.Square(b.San)
		}}}))
	if err != nil {
		t.Fatal(err)
	}
	r := mustRun(t, goBackend(), s, spec)
	if r.Spec.Rule != spec.Rule || !strings.HasPrefix(spec.Rule, "cos/square/con#") {
		t.Errorf("rule %q", r.Spec.Rule)
	}
}

func TestBundledResultsAreWhole(t *testing.T) {
	all, err := Bundled()
	if err != nil {
		t.Fatal(err)
	}
	for hash, r := range all {
		if r.Hash != hash || r.Spec.Recipe != Recipe || r.Backend == "" || r.Machine == "" || r.Date.IsZero() {
			t.Errorf("%s: %+v", hash, r)
		}
	}
}
