//go:build unix

package slurm

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// TestMain lets the test binary be the program that tasks run.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "runs" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		err := command(ctx, os.Args[2:])
		code := 0
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		if errors.Is(err, context.Canceled) {
			code = 130
		}
		os.Exit(code)
	}
	cache, err := os.MkdirTemp("", "dmlx")
	if err != nil {
		panic(err)
	}
	os.Setenv("DMLX_CACHE", cache)
	code := m.Run()
	if cluster != nil {
		_ = cluster.Stop()
	}
	_ = os.RemoveAll(cache)
	os.Exit(code)
}

func command(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("test", flag.ContinueOnError)
	file, sum, dir := f.String("jobs", "", ""), f.String("sum", "", ""), f.String("store", "", "")
	task, of := f.Int("task", 0, ""), f.Int("of", 0, "")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	store, err := runs.OpenStore(*dir)
	if err != nil {
		return err
	}
	say := func(line string) { fmt.Println(time.Now().Format("15:04:05.000"), line) }
	say("begins, restarts: " + os.Getenv("SLURM_RESTART_COUNT"))
	return Task(ctx, store, *file, *sum, *task, *of, openGo, say, func(p runs.Progress) {
		if pause, err := time.ParseDuration(os.Getenv("DMLX_TEST_SLOW")); err == nil { // So that a kill finds it at work.
			time.Sleep(pause)
		}
		if p.OnImages() == "" {
			say(fmt.Sprint("step ", p.Step))
		}
	})
}

func openGo(...runs.Job) (*train.Trainer, error) {
	b, err := backend.Go()
	return train.New(&backend.Choice{Backend: b, Name: "go"}), err
}

// spec is a run of about a second.
func spec(seed uint64) runs.Spec {
	return runs.Spec{Recipe: runs.Recipe, Data: "minicar", Size: 16, TrainClasses: 4, TestClasses: 3,
		Config: train.Config{Objective: objectives.Objective{Rule: "cos/con/con"}, Arch: "small", Weights: train.Random,
			Dim: 8, ClassesPerBatch: 2, ImagesPerClass: 2, Pad: 1, LR: 0.1, Epochs: 6, StepsPerEpoch: 4, Seed: seed}}
}

func jobs(n uint64) []runs.Job {
	var specs []runs.Spec
	for seed := range n {
		specs = append(specs, spec(seed+1))
	}
	return runs.Jobs(specs...)
}

// measures are what a run found, without when and where.
func measures(r *runs.Result) string {
	return fmt.Sprint(r.Recall, r.MAPAtR, r.RPrecision, r.Overlap, r.Compact, r.Files)
}

// undisturbed is what the jobs find when they are done here, one after the other.
var undisturbed = sync.OnceValues(func() (map[string]string, error) {
	dir, err := os.MkdirTemp("", "dmlx")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	store, err := runs.OpenStore(dir)
	if err != nil {
		return nil, err
	}
	trainer, err := openGo()
	if err != nil {
		return nil, err
	}
	out := make(map[string]string)
	for _, j := range jobs(4) {
		r, err := runs.Run(context.Background(), trainer, store, j.Spec, nil)
		if err != nil {
			return nil, err
		}
		out[r.Hash] = measures(r)
	}
	return out, nil
})

func sameAsUndisturbed(t *testing.T, store *runs.Store) {
	t.Helper()
	want, err := undisturbed()
	if err != nil {
		t.Fatal(err)
	}
	for hash := range want {
		r, err := store.Get(hash)
		if err != nil {
			t.Fatal(err)
		}
		if got := measures(r); got != want[hash] {
			t.Errorf("run %s differs from an undisturbed one:\n%s\n%s", hash, got, want[hash])
		}
	}
	if damaged, _ := filepath.Glob(filepath.Join(store.Dir, "*.damaged-*")); len(damaged) > 0 {
		t.Errorf("set aside: %v", damaged)
	}
}

// startCluster starts the test's Slurm when the first test wants it, and leads Slurm's commands to it.
var startCluster = sync.OnceValues(func() (*slurmCluster, error) {
	c, err := startSlurm()
	if err != nil {
		return nil, err
	}
	cluster = c
	return c, os.Setenv("SLURM_CONF", c.Conf())
})

var cluster *slurmCluster // The one that has started.

// withSlurm gives a test a real Slurm and a store.
func withSlurm(t *testing.T) *runs.Store {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a Slurm")
	}
	if _, err := startCluster(); errors.Is(err, errNoSlurm) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	return openStore(t, filepath.Join(t.TempDir(), "runs"))
}

func openStore(t *testing.T, dir string) *runs.Store {
	t.Helper()
	store, err := runs.OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// submitted is a submission of jobs that has been handed to Slurm.
func submitted(t *testing.T, store *runs.Store, jobs []runs.Job, o Options) (s *Submission, id string) {
	t.Helper()
	s, err := Plan(store, jobs, o)
	if err != nil {
		t.Fatal(err)
	}
	if id, err = s.Submit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, id
}

// log returns what a task has printed.
func (s *Submission) log(task int) string {
	raw, _ := os.ReadFile(filepath.Join(s.Dir, fmt.Sprintf("%d.txt", task)))
	return string(raw)
}

// ended waits until no task of a job is in the queue.
func ended(t *testing.T, id string) {
	t.Helper()
	// Times in a row. A job that is requeued may be in no list for a moment, and one that is told to begin before its last
	// turn has left the node fails.
	gone, waits := 0, 0
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if waits == 5 {
			waits = 0
			if err := cluster.Do("hurry"); err != nil {
				t.Log(err)
			}
		}
		out, err := exec.Command("squeue", "--noheader", "--job="+id, "--array").CombinedOutput()
		text := strings.TrimSpace(string(out))
		if text == "" || strings.Contains(text, "Invalid job id") {
			if gone++; gone == 5 {
				return
			}
			continue
		}
		if waits++; !strings.Contains(text, " PD ") {
			waits = 0
		}
		if gone = 0; err == nil && time.Now().After(deadline) {
			t.Fatalf("job %s does not end:\n%s", id, text)
		}
	}
}

// An array trains what is missing, and waits for it as told.
func TestArray(t *testing.T) {
	store := withSlurm(t)
	trainer, err := openGo()
	if err != nil {
		t.Fatal(err)
	}
	if err := jobs(1)[0].Run(t.Context(), trainer, store, nil); err != nil { // It is there already.
		t.Fatal(err)
	}
	t.Setenv("SLURM_JOB_ID", "12345") // Of a session of Slurm in which this process might run.
	t.Setenv("SBATCH_ARRAY_INX", "7")
	t.Setenv("SLURM_TEST_INHERITED", "inherited")
	var said []string
	o := Options{MaxParallel: 2, Sbatch: []string{"--comment=a b"}, Wait: true,
		Say: func(line string) { said = append(said, line) }}
	s, id := submitted(t, store, append(jobs(4), jobs(2)...), o)
	sameAsUndisturbed(t, store)
	if text := strings.Join(said, "\n"); len(s.Jobs) != 3 || strings.Count(text, "submitting 3 runs") != 1 || id == "" {
		t.Errorf("%d jobs, said %q", len(s.Jobs), said)
	}
	for n := range 3 {
		if text := s.log(n); !strings.Contains(text, " is done\n") {
			t.Errorf("task %d printed %q", n, text)
		}
	}
	if s, err := Plan(store, jobs(4), o); err != nil || len(s.Jobs) > 0 {
		t.Errorf("missing are %v, %v", s.Jobs, err)
	} else if id, err := s.Submit(t.Context()); id != "" || err != nil {
		t.Errorf("nothing was submitted as %q, %v", id, err)
	}
	failing := spec(9)
	failing.Data = "minishop"
	failing.DataDigest = "0123"
	s, err = Plan(store, runs.Jobs(failing, spec(5)), o)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := s.Submit(t.Context()); err == nil || !strings.Contains(err.Error(), "tasks of job "+id+" failed") {
		t.Error(err)
	}
	if !strings.Contains(s.log(0), "have changed since the spec was made") || !strings.Contains(s.log(1), " is done") {
		t.Errorf("%s\n%s", s.log(0), s.log(1))
	}
}

// Whatever dies, tasks or the node, and how often the jobs are submitted meanwhile, the numbers are the same.
func TestDeathsAtRandomMoments(t *testing.T) {
	store := withSlurm(t)
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("DMLX_TEST_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("DMLX_TEST_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Setenv("DMLX_TEST_SLOW", "20ms")
	deaths := []string{"task", "task", "node", "submission", "task"}
	rng.Shuffle(len(deaths), func(i, j int) { deaths[i], deaths[j] = deaths[j], deaths[i] })
	deadline := time.Now().Add(4 * time.Minute)
	for time.Now().Before(deadline) {
		s, id := submitted(t, store, jobs(4), Options{})
		if len(s.Jobs)+s.Busy == 0 {
			t.Logf("deaths left: %v", deaths)
			sameAsUndisturbed(t, store)
			return
		}
		if id == "" { // All that is missing is being trained.
			time.Sleep(time.Second)
			continue
		}
		for wait := rng.IntN(4); wait >= 0 && len(deaths) > 0; wait-- {
			time.Sleep(time.Duration(200+rng.IntN(1500)) * time.Millisecond)
			if err := cluster.Do("hurry"); err != nil {
				t.Log(err)
			}
			if deaths[0] == "submission" {
				deaths = deaths[1:]
				break
			}
			if !killTask(store, rng) {
				continue // None is at work yet.
			}
			if deaths[0] == "node" {
				if err := errors.Join(cluster.Do("node-die"), cluster.Do("node-start")); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("%s: a %s died", time.Now().Format("15:04:05.000"), deaths[0])
			deaths = deaths[1:]
		}
		if len(deaths) == 0 || rng.IntN(2) == 0 {
			ended(t, id)
		}
	}
	t.Fatal("not done in time")
}

// killTask kills a process of a task of the store, if there is one.
func killTask(store *runs.Store, rng *rand.Rand) bool {
	var found []int
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		raw, err := os.ReadFile(path)
		args := strings.Split(string(raw), "\x00")
		if err == nil && len(args) > 4 && args[2] == "make" && args[4] == store.Dir {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
				found = append(found, pid)
			}
		}
	}
	return len(found) > 0 && syscall.Kill(found[rng.IntN(len(found))], syscall.SIGKILL) == nil
}

// A task that is told that its time ends stops, is requeued and goes on to the same bits; the other tasks of its array
// are left alone.
func TestTimeEndsInARun(t *testing.T) {
	store := withSlurm(t)
	t.Setenv("DMLX_TEST_SLOW", "100ms")
	s, id := submitted(t, store, jobs(4), Options{Time: "10"})
	const last = 3
	for deadline := time.Now().Add(2 * time.Minute); store.Entry(s.Jobs[last].Spec.Hash()).Epoch == 0; {
		if time.Now().After(deadline) {
			t.Fatalf("no epoch:\n%s", s.log(last))
		}
		time.Sleep(50 * time.Millisecond)
	}
	// As Slurm does by --signal=B:USR1@60.
	if out, err := exec.Command("scancel", "--batch", "--signal=USR1", fmt.Sprintf("%s_%d", id, last)).
		CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ended(t, id)
	sameAsUndisturbed(t, store)
	for n := range s.Jobs {
		turns := strings.Split(s.log(n), "begins, restarts: ")
		want := 2 + n/last
		if len(turns) != want {
			t.Errorf("task %d had %d turns, want %d:\n%s", n, len(turns)-1, want-1, s.log(n))
		} else if want == 3 && (!strings.HasPrefix(turns[2], "1\n") || strings.Contains(turns[2], "step 1\n")) {
			t.Errorf("the second turn began anew:\n%s", s.log(n))
		}
	}
}

// Tasks from which Slurm takes the node, for a job of a partition that goes first, go on later from their checkpoints.
func TestPreemption(t *testing.T) {
	store := withSlurm(t)
	t.Setenv("DMLX_TEST_SLOW", "300ms")
	s, id := submitted(t, store, jobs(4), Options{})
	for deadline := time.Now().Add(2 * time.Minute); store.Entry(s.Jobs[0].Spec.Hash()).Epoch == 0; {
		if time.Now().After(deadline) {
			t.Fatalf("no epoch:\n%s", s.log(0))
		}
		time.Sleep(50 * time.Millisecond)
	}
	if out, err := exec.Command("sbatch", "--partition=urgent", "--exclusive", "--output=/dev/null",
		"--wrap=sleep 1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ended(t, id)
	sameAsUndisturbed(t, store)
	if turns := strings.Split(s.log(0), "begins, restarts: "); len(turns) != 3 || !strings.HasPrefix(turns[2], "1\n") ||
		strings.Contains(turns[2], "step 1\n") {
		t.Errorf("the task was to have a second turn, and not to begin anew in it:\n%s", s.log(0))
	}
}

// Of two submissions of the same jobs each run is trained once: what is being trained is not submitted, and a second
// task ends at once.
func TestTwoSubmissions(t *testing.T) {
	store := withSlurm(t)
	t.Setenv("DMLX_TEST_SLOW", "100ms")
	first, a := submitted(t, store, jobs(4), Options{MaxParallel: 1})
	for deadline := time.Now().Add(2 * time.Minute); !strings.Contains(first.log(0), " step "); {
		if time.Now().After(deadline) {
			t.Fatalf("no step:\n%s", first.log(0))
		}
		time.Sleep(50 * time.Millisecond)
	}
	second, b := submitted(t, store, jobs(4), Options{})
	if len(second.Jobs) != 3 || second.Busy != 1 {
		t.Errorf("%d jobs, %d are trained now", len(second.Jobs), second.Busy)
	}
	ended(t, a)
	ended(t, b)
	sameAsUndisturbed(t, store)
	var logs strings.Builder
	for n := range 4 {
		logs.WriteString(first.log(n) + second.log(n))
	}
	if text := logs.String(); strings.Count(text, " is done\n") != 4 ||
		strings.Count(text, " is in the store\n")+strings.Count(text, " is trained by another process\n") != 3 {
		t.Error(text)
	}
}

// A store's path is no pattern and no option, here or to Slurm.
func TestPathsThatLookLikePatterns(t *testing.T) {
	withSlurm(t)
	dir := t.TempDir()
	for _, name := range []string{"r1", "r[1] %a%%j*?", "it's $(here)"} {
		store := openStore(t, filepath.Join(dir, name))
		s, _ := submitted(t, store, jobs(1), Options{Wait: true})
		if text := s.log(0); !strings.Contains(text, " is done\n") {
			t.Errorf("%s: %q", name, text)
		}
	}
	for _, name := range []string{`a\b`, `a"b`, "a\nb"} {
		if _, err := Plan(openStore(t, filepath.Join(dir, name)), jobs(1), Options{}); err == nil {
			t.Errorf("%q: no error", name)
		}
	}
}

// A task that is stopped can go on if it got further, and says so if not.
func TestStoppedTask(t *testing.T) {
	for epoch, want := range map[int]string{1: "before an epoch ended; if the time limit did it", 3: ""} {
		store := openStore(t, t.TempDir())
		lines, err := durable.Lines(jobs(2))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "jobs.jsonl")
		if err := os.WriteFile(file, lines, 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err = Task(ctx, store, file, durable.Sum(lines), 0, 1, openGo, func(string) {}, func(p runs.Progress) {
			if p.Epoch == epoch {
				cancel()
			}
		})
		if err == nil || errors.Is(err, context.Canceled) != (want == "") || !strings.Contains(err.Error(), want) {
			t.Errorf("in epoch %d: %v", epoch, err)
		}
		if err := Task(t.Context(), store, file, durable.Sum(lines), 0, 1, openGo, func(string) {}, nil); err != nil {
			t.Error(err)
		}
		for _, j := range jobs(2) { // Both are of the one task.
			if done, err := j.Done(store); !done {
				t.Error(err)
			}
		}
		for _, c := range []struct {
			sum      string
			task, of int
		}{{"0", 0, 1}, {durable.Sum(lines), 2, 2}, {durable.Sum(lines), -1, 1}, {durable.Sum(lines), 0, 0}} {
			if err := Task(t.Context(), store, file, c.sum, c.task, c.of, openGo, nil, nil); err == nil {
				t.Errorf("%+v: no error", c)
			}
		}
	}
}

// fakeSlurm puts commands in the place of Slurm's. sbatch runs the script for task 0 at once, after text.
func fakeSlurm(t *testing.T, text string) {
	t.Helper()
	dir := t.TempDir()
	for name, body := range map[string]string{"sbatch": "cat > " + dir + "/script\n" + text, "scontrol": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/bash\n"+body), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// The number is that of the last line that is one; what sbatch refuses is said in a line.
func TestWhatSbatchSays(t *testing.T) {
	for text, want := range map[string]string{
		"echo 4711": "4711",
		"echo 'Welcome to the cluster: 12 nodes'; echo; echo '4711;main'": "4711",
		"echo 12; echo 4711": "4711",
		"echo Welcome":       `sbatch printed no job number, but "Welcome`,
		"echo 'sbatch: error: invalid partition specified: x' >&2; exit 1": "sbatch: invalid partition specified: x",
		"env | grep -E '^(SLURM|SBATCH)_' | grep -vc '^SLURM_CONF='":       "0",
	} {
		t.Run(want, func(t *testing.T) {
			fakeSlurm(t, text)
			t.Setenv("SLURM_CPU_BIND", "1")
			t.Setenv("SBATCH_PARTITION", "2")
			s, err := Plan(openStore(t, t.TempDir()), jobs(1), Options{})
			if err != nil {
				t.Fatal(err)
			}
			id, err := s.Submit(t.Context())
			if text := id + fmt.Sprint(err); !strings.Contains(text, want) || strings.Contains(text, "\n") {
				t.Errorf("%q, %v", id, err)
			}
		})
	}
}

func TestScript(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	store := openStore(t, t.TempDir())
	s, err := Plan(store, jobs(1200), Options{Partition: "gpu", Time: "2:00:00", MaxParallel: 8,
		Sbatch: []string{"--qos=a b"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"#!/bin/bash\n#SBATCH ", "\"--array=0-999%8\"\n",
		"\"--partition=gpu\"\n#SBATCH \"--time=2:00:00\"\n" +
			"#SBATCH \"--qos=a b\"\n", "\"--requeue\"\n", " --of 1000)", "\"--signal=B:USR1@60\"\n"} {
		if !strings.Contains(s.Script, want) {
			t.Errorf("no %q in\n%s", want, s.Script)
		}
	}
	if _, err := s.Submit(t.Context()); err == nil || !strings.Contains(err.Error(), "sbatch, a command of Slurm,") {
		t.Error(err)
	}
	for gres, want := range map[string]string{"": "--gres=gpu:4", "gpu:h100:8": "--gres=gpu:h100:8"} {
		if s, err := Plan(store, []runs.Job{{Spec: spec(1), Devices: 4}}, Options{Gres: gres}); err != nil ||
			!strings.Contains(s.Script, want+"\"\n") {
			t.Errorf("no %s in %s, %v", want, s.Script, err)
		}
	}
	if _, err := Plan(store, jobs(1), Options{Sbatch: []string{"--x=\n#SBATCH --y"}}); err == nil {
		t.Error("no error")
	}
}

// Nothing that others change in the store between the submission and the start of a task runs as the user.
func TestWhatRunsIsOnesOwn(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash, which runs job scripts")
	}
	evil := []byte("#!/bin/bash\ntouch \"$MARK\"\n")
	for name, change := range map[string]func(s *Submission) error{
		"nothing": func(*Submission) error { return nil },
		"program": func(s *Submission) error { return os.WriteFile(s.to, evil, 0o755) },
		"jobs": func(s *Submission) error {
			return os.WriteFile(filepath.Join(s.Dir, "jobs.jsonl"), append(s.jobs, s.jobs...), 0o644)
		},
		"script": func(s *Submission) error { return os.WriteFile(filepath.Join(s.Dir, "job.sh"), evil, 0o755) },
		"owner": func(s *Submission) error {
			if os.Geteuid() != 0 {
				return os.WriteFile(s.to, evil, 0o755)
			}
			return os.Chown(s.to, 65534, -1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			fakeSlurm(t, "echo 1")
			store := openStore(t, t.TempDir())
			s, _ := submitted(t, store, jobs(1), Options{})
			mark := filepath.Join(t.TempDir(), "mark")
			t.Setenv("MARK", mark)
			t.Setenv("SLURM_ARRAY_TASK_ID", "0")
			if err := change(s); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("bash")
			cmd.Stdin = strings.NewReader(s.Script)
			out, err := cmd.CombinedOutput()
			if wants := name == "nothing" || name == "script"; (err == nil) != wants {
				t.Errorf("%v: %s", err, out)
			}
			if _, err := os.Stat(mark); err == nil {
				t.Error("foreign code ran")
			}
			s, _ = submitted(t, store, jobs(2), Options{}) // A program that was changed is replaced.
			if sum, err := durable.FileSum(s.to); err != nil || !strings.Contains(s.Script, sum) {
				t.Error(err)
			}
			if info, err := os.Stat(filepath.Dir(s.Dir)); err != nil || info.Mode()&os.ModeSticky == 0 {
				t.Errorf("others can rename the folders of submissions: %v", err)
			}
		})
	}
}
