//go:build unix

package slurm

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/runs/slurm/slurmtest"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// TestMain lets the test binary be the program that tasks run, and the process that submits them.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && (os.Args[1] == "runs" || os.Args[1] == "submit") {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := command(ctx, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
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
	manifest, task := f.String("manifest", "", ""), f.Int("task", 0, "")
	dir, nonce := f.String("dir", "", ""), f.String("nonce", "", "")
	if err := f.Parse(args[2:]); err != nil {
		return err
	}
	say := func(line string) { fmt.Println(time.Now().Format("15:04:05.000"), line) }
	w := Worker{Say: say, Open: openGo, Progress: func(p runs.Progress) {
		if pause, err := time.ParseDuration(os.Getenv("DMLX_TEST_SLOW")); err == nil { // So that a kill finds it at work.
			time.Sleep(pause)
		}
		if p.OnImages() == "" {
			say(fmt.Sprint("step ", p.Step))
		}
	}}
	switch strings.Join(args[:2], " ") {
	case "runs make":
		say("begins, restarts: " + os.Getenv("SLURM_RESTART_COUNT"))
		return w.Run(ctx, *manifest, *task)
	case "runs probe":
		return w.Probe(*dir, *nonce)
	case "submit jobs":
		store, err := runs.OpenStore(*dir)
		if err != nil {
			return err
		}
		return Run(ctx, store, jobs(4), options(say))
	}
	return fmt.Errorf("no command %q", args)
}

func openGo(...runs.Job) (*train.Trainer, error) {
	b, err := backend.Go()
	return train.New(&backend.Choice{Backend: b, Name: "go"}), err
}

// options poll often.
func options(say func(string)) Options {
	return Options{Poll: 300 * time.Millisecond, Say: say, Retries: 5}
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
func measures(t *testing.T, store *runs.Store, hash string) string {
	t.Helper()
	r, err := store.Get(hash)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(r.Recall, r.MAPAtR, r.RPrecision, r.Overlap, r.Compact, r.Files)
}

// undisturbed is what the jobs find when they are made here, one after the other.
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
		out[r.Hash] = fmt.Sprint(r.Recall, r.MAPAtR, r.RPrecision, r.Overlap, r.Compact, r.Files)
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
		if got := measures(t, store, hash); got != want[hash] {
			t.Errorf("run %s differs from an undisturbed one:\n%s\n%s", hash, got, want[hash])
		}
	}
	if damaged, _ := filepath.Glob(filepath.Join(store.Dir, "*.damaged-*")); len(damaged) > 0 {
		t.Errorf("set aside: %v", damaged)
	}
}

// startCluster starts the test's Slurm when the first test wants it, and leads Slurm's commands to it.
var startCluster = sync.OnceValues(func() (*slurmtest.Cluster, error) {
	c, err := slurmtest.Start()
	if err != nil {
		return nil, err
	}
	cluster = c
	return c, os.Setenv("SLURM_CONF", c.Conf())
})

var cluster *slurmtest.Cluster // The one that has started.

// withSlurm gives a test a real Slurm and a store.
func withSlurm(t *testing.T) *runs.Store {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a Slurm")
	}
	if _, err := startCluster(); errors.Is(err, slurmtest.ErrNone) {
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

func TestAnArrayMakesWhatIsMissing(t *testing.T) {
	store := withSlurm(t)
	var said []string
	o := options(func(line string) { said = append(said, line) })
	var last Status
	o.Progress = func(s Status) { last = s }
	o.MaxParallel = 2
	o.Sbatch = []string{"--comment=a b"}
	trainer, err := openGo()
	if err != nil {
		t.Fatal(err)
	}
	if err := jobs(1)[0].Run(t.Context(), trainer, store, nil); err != nil { // It is there already.
		t.Fatal(err)
	}
	if err := Run(t.Context(), store, append(jobs(4), jobs(2)...), o); err != nil {
		t.Fatal(err, said)
	}
	sameAsUndisturbed(t, store)
	if last.Jobs != 3 || last.Done != 3 || last.Fraction != 1 || !strings.HasPrefix(last.String(), "3 of 3 done") {
		t.Errorf("status %+v", last)
	}
	text := strings.Join(said, "\n")
	if strings.Count(text, "probe: ") != 2 || !strings.Contains(text, "backend go") ||
		!strings.Contains(text, "submitted 3 runs as array") {
		t.Errorf("said %q", said)
	}
	// All of it is done, so nothing is sent; a fourth run needs no second probe.
	said = nil
	if err := Run(t.Context(), store, jobs(4), o); err != nil || len(said) > 0 {
		t.Errorf("%v, said %q", err, said)
	}
	if open, err := Unfinished(store); err != nil || len(open) > 0 {
		t.Errorf("unfinished %v, %v", open, err)
	}

	// A program that no one needs goes after a week.
	s, err := Plan(t.Context(), store, jobs(6), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, age := range []int{1, 8} {
		old := time.Now().AddDate(0, 0, -age)
		if err := os.Chtimes(s.program(), old, old); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(prune(store, []*Submission{s}), prune(store, nil)); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(s.program()); (err == nil) != (age < 7) {
			t.Errorf("of %d days: %v", age, err)
		}
	}
}

// The table that comes out of it is the same whatever dies: tasks, the node, the process that submits.
func TestDeathsAtRandomMoments(t *testing.T) {
	store := withSlurm(t)
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("DMLX_TEST_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("DMLX_TEST_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Setenv("DMLX_TEST_SLOW", "20ms")
	submit := func() (*exec.Cmd, *strings.Builder) {
		cmd := exec.Command(os.Args[0], "submit", "jobs", "--dir", store.Dir)
		out := new(strings.Builder)
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, out
	}
	cmd, out := submit()
	var output []*strings.Builder
	ended := make(chan error, 1)
	wait := func(cmd *exec.Cmd) { go func() { ended <- cmd.Wait() }() }
	wait(cmd)
	deaths := []string{"task", "task", "node", "submitter", "submitter", "task"}
	rng.Shuffle(len(deaths), func(i, j int) { deaths[i], deaths[j] = deaths[j], deaths[i] })
	deadline := time.After(2 * time.Minute)
	for {
		next := time.Duration(200+rng.IntN(1500)) * time.Millisecond
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("%v:\n%s", err, out)
			}
			t.Logf("deaths left: %v", deaths)
			sameAsUndisturbed(t, store)
			return
		case <-deadline:
			_ = cmd.Process.Kill()
			text, _ := run(t.Context(), "squeue", "--states=all", "--array")
			t.Fatalf("not done in time:\n%s\n%s\n%v", text, out, output)
		case <-time.After(next):
		}
		if err := cluster.Do("hurry"); err != nil {
			t.Log(err)
		}
		if len(deaths) == 0 {
			continue
		}
		switch deaths[0] {
		case "task":
			if !signalTask(store, rng, syscall.SIGKILL) {
				continue // None is at work yet.
			}
		case "node":
			if !signalTask(store, rng, syscall.SIGKILL) {
				continue
			}
			if err := cluster.Do("node-die"); err != nil {
				t.Fatal(err)
			}
			if err := cluster.Do("node-start"); err != nil {
				t.Fatal(err)
			}
		case "submitter":
			_ = cmd.Process.Kill()
			<-ended
			output = append(output, out)
			cmd, out = submit()
			wait(cmd)
		}
		t.Logf("%s: a %s died", time.Now().Format("15:04:05.000"), deaths[0])
		deaths = deaths[1:]
	}
}

// A task that dies is sent again, and when Slurm does not take it at once, later.
func TestSendingAgainFailsOnce(t *testing.T) {
	store := withSlurm(t)
	sbatch, err := exec.LookPath("sbatch")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	text := fmt.Sprintf("#!/bin/bash\necho >>%[1]s\nif [ $(wc -l <%[1]s) = 3 ]; then echo 'Unable to contact slurm "+
		"controller' >&2; exit 1; fi\nexec %[2]s \"$@\"\n", quote(calls), quote(sbatch))
	if err := os.WriteFile(filepath.Join(dir, "sbatch"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("DMLX_TEST_SLOW", "20ms")
	var said []string
	ended := make(chan error, 1)
	go func() {
		ended <- Run(t.Context(), store, jobs(1), options(func(line string) { said = append(said, line) }))
	}()
	rng := rand.New(rand.NewPCG(1, 0))
	for killed := false; ; {
		select {
		case err := <-ended:
			if err != nil || !killed {
				t.Fatalf("killed %v, %v", killed, err)
			}
			if all := strings.Join(said, "\n"); !strings.Contains(all, "cannot submit vanished tasks yet") ||
				!strings.Contains(all, "Unable to contact") {
				t.Error(all)
			}
			// A probe, the array, and twice what died.
			if raw, err := os.ReadFile(calls); err != nil || strings.Count(string(raw), "\n") != 4 {
				t.Errorf("sbatch was called %d times, %v", strings.Count(string(raw), "\n"), err)
			}
			return
		case <-time.After(100 * time.Millisecond):
			killed = killed || signalTask(store, rng, syscall.SIGKILL)
			if err := cluster.Do("hurry"); err != nil {
				t.Log(err)
			}
		}
	}
}

// Tasks from which Slurm takes the node, for a job of a partition that goes first, go on later from their checkpoints.
func TestPreemption(t *testing.T) {
	store := withSlurm(t)
	t.Setenv("DMLX_TEST_SLOW", "300ms")
	o := options(nil)
	s, err := Submit(t.Context(), store, jobs(4), o)
	if err != nil {
		t.Fatal(err)
	}
	log := func(n int) string {
		text, err := os.ReadFile(s.log(n))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		return string(text)
	}
	taken := -1
	o.Progress = func(Status) {
		for n, task := range s.Tasks {
			if taken < 0 && store.Entry(task.Hash).Epoch > 0 && !strings.Contains(log(n), fmt.Sprint("step ", spec(1).Steps())) {
				taken = n
				if out, err := exec.Command("sbatch", "--partition=urgent", "--exclusive", "--output=/dev/null",
					"--wrap=sleep 1").CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			}
		}
		if err := cluster.Do("hurry"); err != nil {
			t.Error(err)
		}
	}
	if err := Watch(t.Context(), store, o); err != nil {
		t.Fatal(err)
	}
	sameAsUndisturbed(t, store)
	if taken < 0 {
		t.Fatal("no task was seen at work")
	}
	turns := strings.Split(log(taken), "begins, restarts: ")
	if len(turns) != 3 || !strings.HasPrefix(turns[2], "1\n") || strings.Contains(turns[2], "step 1\n") ||
		!strings.Contains(turns[2], "step ") {
		t.Errorf("the task was to have a second turn, and not to begin anew in it:\n%s", log(taken))
	}
}

// A task that is told that its time ends stops, asks to be requeued and resumes; the other tasks of its array
// are left alone. It is the last one to start, whose job has the number of the array.
func TestTimeEndsInARun(t *testing.T) {
	store := withSlurm(t)
	t.Setenv("DMLX_TEST_SLOW", "100ms")
	o := options(nil)
	o.Time = "2" // Minutes, so that the end is near.
	s, err := Submit(t.Context(), store, jobs(4), o)
	if err != nil {
		t.Fatal(err)
	}
	const last = 3
	log := func(n int) string {
		text, err := os.ReadFile(s.log(n))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		return string(text)
	}
	told := false
	o.Progress = func(Status) {
		// Slurm signals the batch script's process, which the program has become.
		if !told && strings.Contains(log(last), " step ") {
			told = signalTask(store, rand.New(rand.NewPCG(1, 0)), syscall.SIGTERM, last)
		}
		if err := cluster.Do("hurry"); err != nil {
			t.Error(err)
		}
	}
	if err := Watch(t.Context(), store, o); err != nil {
		t.Fatal(err)
	}
	sameAsUndisturbed(t, store)
	if st, err := s.Status(t.Context()); err != nil || st.Done != 4 {
		t.Errorf("%+v, %v", st, err)
	}
	for n := range s.Tasks {
		asked, turns := strings.Count(log(n), "asking to be requeued"), strings.Count(log(n), "begins, restarts: ")
		if want := n / last; asked != want || turns != want+1 {
			t.Errorf("task %d asked for %d turns and had %d, want %d and %d:\n%s", n, asked, turns, want, want+1, log(n))
		}
	}
}

// signalTask signals a process of a task of the store, if there is one; of those with the given numbers, or of any.
func signalTask(store *runs.Store, rng *rand.Rand, signal syscall.Signal, tasks ...int) bool {
	var found []int
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		raw, err := os.ReadFile(path)
		if args := strings.Split(string(raw), "\x00"); err == nil && len(args) > 6 && strings.HasPrefix(args[0], store.Dir) &&
			args[2] == "make" {
			task, _ := strconv.Atoi(args[6]) // runs make --manifest FILE --task N
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil &&
				(tasks == nil || slices.Contains(tasks, task)) {
				found = append(found, pid)
			}
		}
	}
	if len(found) == 0 {
		return false
	}
	return syscall.Kill(found[rng.IntN(len(found))], signal) == nil
}

// A task that cannot be started where it was sent is held by Slurm; it is released, and named when that does not help.
func TestHeldTask(t *testing.T) {
	store := withSlurm(t)
	var said []string
	o := options(func(line string) { said = append(said, line) })
	once := true // Whether only the first start fails.
	o.Progress = func(s Status) {
		if once && s.held > 0 {
			if err := cluster.Do("heal-start"); err != nil {
				t.Error(err)
			}
		}
		if err := cluster.Do("hurry"); err != nil {
			t.Error(err)
		}
	}
	s, err := Submit(t.Context(), store, jobs(4)[:1], o)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Cancel(t.Context()) // Its probe is done: from here on a start is that of a task.

	o.NoProbe = true
	if err := cluster.Do("fail-start"); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), store, jobs(4), o); err != nil {
		t.Fatal(err, said)
	}
	sameAsUndisturbed(t, store)
	if text := strings.Join(said, "\n"); !strings.Contains(text, "Slurm could not start run") ||
		!strings.Contains(text, "released it") {
		t.Errorf("said %q", said)
	}

	// Without another chance: a node that remembers the job may let it start then, since it runs a prolog once a job.
	once, o.Retries = false, -1
	if err := cluster.Do("fail-start"); err != nil {
		t.Fatal(err)
	}
	var failed *FailedError
	err = Run(t.Context(), store, jobs(5), o)
	if err := cluster.Do("heal-start"); err != nil {
		t.Error(err)
	}
	if !errors.As(err, &failed) || len(failed.Failures) != 1 || failed.Failures[0].Attempts != 1 ||
		!strings.Contains(err.Error(), "then scontrol release ") {
		t.Errorf("%v, said %q", err, said)
	}
	open, err := Unfinished(store)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range open {
		if err := s.Cancel(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := cluster.Do("hurry"); err != nil {
		t.Error(err)
	}
}

func TestFailingRunIsNamed(t *testing.T) {
	store := withSlurm(t)
	bad := spec(7)
	bad.ClassesPerBatch = 50 // More than there are: found when the data is open.
	o := options(nil)
	o.Retries = 1
	err := Run(t.Context(), store, append(jobs(1), runs.Jobs(bad)...), o)
	var failed *FailedError
	if !errors.As(err, &failed) || len(failed.Failures) != 1 {
		t.Fatal(err)
	}
	f := failed.Failures[0]
	if f.Attempts != 2 || f.Task.Hash != bad.Hash() ||
		!strings.Contains(err.Error(), "1 of 2 runs failed: run "+bad.Hash()) ||
		!strings.Contains(err.Error(), "2 attempts: ") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v\n%+v", err, f)
	}
	if log, err := os.ReadFile(f.Log); err != nil || !strings.Contains(string(log), "attempt 2 of 2") {
		t.Errorf("log %s, %v", log, err)
	}
	if done, err := jobs(1)[0].Done(store); !done || err != nil {
		t.Errorf("the other run is not done: %v", err)
	}
}

func TestAnotherProgram(t *testing.T) {
	store := withSlurm(t)
	o := options(nil)
	s, err := Plan(t.Context(), store, jobs(1), o)
	if err != nil {
		t.Fatal(err)
	}
	real := s.Digest
	s.Digest = strings.Repeat("0", 64) // As if it had been replaced since.
	if err := s.write(); err != nil {
		t.Fatal(err)
	}
	w := Worker{Open: openGo}
	err = w.Run(t.Context(), s.path(manifestFile), 0)
	if err == nil || !strings.Contains(err.Error(), "wrong program") || !strings.Contains(err.Error(), real[:12]) {
		t.Error(err)
	}
	if f, err := s.failure(0); err != nil || f == nil || !strings.Contains(f.Error, "submit again") {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestTwoSubmitters(t *testing.T) {
	store := withSlurm(t)
	t.Setenv("DMLX_TEST_SLOW", "20ms")
	var mu sync.Mutex
	var said []string
	o := options(func(line string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, line)
	})
	errs := make(chan error, 2)
	for range 2 {
		go func() { errs <- Run(t.Context(), store, jobs(4), o) }()
	}
	if err := errors.Join(<-errs, <-errs); err != nil {
		t.Fatal(err)
	}
	sameAsUndisturbed(t, store)
	if text := strings.Join(said, "\n"); strings.Count(text, "submitted") != 1 {
		t.Errorf("said %s", text)
	}
	logs, err := filepath.Glob(filepath.Join(store.Dir, folder, "*", logDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	steps := 0
	for _, log := range logs {
		raw, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		steps += strings.Count(string(raw), " step ")
	}
	if want := 4 * spec(1).Steps(); steps != want {
		t.Errorf("%d steps were made, want %d", steps, want)
	}
}

func TestCancel(t *testing.T) {
	store := withSlurm(t)
	t.Setenv("DMLX_TEST_SLOW", "200ms")
	o := options(nil)
	s, err := Submit(t.Context(), store, jobs(4), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context()) // Ctrl-C of the follower leaves the jobs.
	o.Progress = func(s Status) {
		if s.Running > 0 {
			cancel()
		}
	}
	if err := s.Follow(ctx, o); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "the runs continue") {
		t.Fatal(err)
	}
	if st, err := s.Status(t.Context()); err != nil || st.Done == st.Jobs || st.Running+st.Pending == 0 {
		t.Errorf("%+v, %v", st, err)
	}
	open, err := Unfinished(store)
	if err != nil || len(open) != 1 || open[0].ID != s.ID {
		t.Fatal(open, err)
	}
	o.Progress = nil
	t.Setenv("DMLX_TEST_SLOW", "50ms")
	o.NoProbe = true                                      // It would wait for the tasks.
	relies, err := Submit(t.Context(), store, jobs(4), o) // All of it is queued by the other.
	if err != nil || len(relies.ownTasks()) > 0 {
		t.Fatalf("%+v, %v", relies, err)
	}
	if err := open[0].Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Follow(t.Context(), o); !errors.Is(err, errCancelled) {
		t.Error(err)
	}
	if q, err := queue(t.Context(), s); err != nil || q.at(s, 3).active() {
		t.Errorf("%+v, %v", q, err)
	}
	queued := o
	queued.Queued = true
	if _, err := Submit(t.Context(), store, jobs(4), queued); err == nil ||
		!strings.Contains(err.Error(), "of 4 runs are not in Slurm's queue") {
		t.Error(err)
	}
	// What was taken over is known to who follows it later, without having it in memory.
	ctx, cancel = context.WithCancel(t.Context())
	o.Progress = func(s Status) {
		if s.Running > 0 && len(relies.ownTasks()) == 4 { // What was cancelled may still be ending.
			cancel()
		}
	}
	if err := relies.Follow(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	later, err := Open(store, relies.ID)
	if err != nil || len(later.ownTasks()) != 4 {
		t.Fatalf("%+v, %v", later, err)
	}
	if st, err := later.Status(t.Context()); err != nil || st.Lost > 0 {
		t.Errorf("%+v, %v", st, err)
	}
	o.Progress = nil
	if err := Watch(t.Context(), store, o); err != nil {
		t.Error(err)
	}
	sameAsUndisturbed(t, store)
}

// Each follower of a submission takes over what it sees to be cancelled, and knows what another has taken over.
func TestTakenOverByTwo(t *testing.T) {
	if testing.Short() {
		t.Skip("asks a Slurm that runs")
	}
	store := openStore(t, t.TempDir())
	s, err := Plan(t.Context(), store, jobs(3), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		s.Tasks[n].QueuedIn = "another"
	}
	if err := s.write(); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		one, err := Open(store, s.ID)
		if err != nil {
			t.Fatal(err)
		}
		one.Tasks[0].QueuedIn, one.Tasks[1].QueuedIn = "another", "another" // As it was when it began to follow.
		one.Tasks[n].QueuedIn = ""
		if err := (&follower{Submission: one}).saveTakenOver(); err != nil {
			t.Fatal(err)
		}
	}
	if s, err = Open(store, s.ID); err != nil || len(s.ownTasks()) != 3 {
		t.Errorf("%+v, %v", s, err)
	}
}

// A run that is queued with its histograms is not submitted by itself.
func TestHistogramsIncludeTheRun(t *testing.T) {
	store := withSlurm(t)
	o := options(nil)
	o.NoProbe, o.Sbatch = true, []string{"--hold"} // None of it is to be made.
	both := jobs(3)
	for n := range both {
		both[n].Histograms = n > 0
	}
	sent, err := Submit(t.Context(), store, both, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := sent.Cancel(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	s, err := Plan(t.Context(), store, jobs(4), o)
	if err != nil || len(s.ownTasks()) != 1 || s.Tasks[s.ownTasks()[0]].Spec.Seed != 4 {
		t.Fatalf("%+v, %v", s, err)
	}
	f, err := newFollower(s)
	if err != nil {
		t.Fatal(err)
	}
	for n, task := range f.tasks[:3] {
		if got := task.where.Tasks[task.n]; task.where.ID != sent.ID || got.Hash != s.Tasks[n].Hash {
			t.Errorf("run %s is followed as %+v", s.Tasks[n].Hash, got)
		}
	}
	whole := jobs(1) // A run alone does not include histograms.
	whole[0].Histograms = true
	if s, err = Plan(t.Context(), store, whole, o); err != nil || len(s.ownTasks()) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestWhatSlurmRefuses(t *testing.T) {
	store := withSlurm(t)
	o := options(nil)
	o.Partition = "abacus"
	if _, err := Submit(t.Context(), store, jobs(1), o); err == nil ||
		!strings.Contains(err.Error(), "invalid partition specified: abacus") {
		t.Error(err)
	}
	o.NoProbe = true // Then it is the array that is refused, and nothing of it is left to be followed.
	if _, err := Submit(t.Context(), store, jobs(1), o); err == nil ||
		!strings.Contains(err.Error(), "invalid partition specified: abacus") || strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
	if open, err := Unfinished(store); err != nil || len(open) > 0 {
		t.Errorf("left: %v, %v", open, err)
	}
	if cluster.Hidden == "" {
		t.Skip("no mount namespaces: a store that the node does not see cannot be made")
	}
	unseen := openStore(t, filepath.Join(cluster.Hidden, "runs"))
	_, err := Submit(t.Context(), unseen, jobs(1), options(nil))
	if err == nil || !strings.Contains(err.Error(), "does not see the run store "+unseen.Dir) {
		t.Error(err)
	}
	if open, err := Unfinished(unseen); err != nil || len(open) > 0 {
		t.Errorf("something was submitted: %v, %v", open, err)
	}
}

func TestWithoutSlurm(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	store := openStore(t, t.TempDir())
	if _, err := Submit(t.Context(), store, jobs(1), Options{}); err == nil ||
		!strings.Contains(err.Error(), "sbatch, a command of Slurm, is not on the PATH of this machine") {
		t.Error(err)
	}
	s, err := Plan(t.Context(), store, jobs(1200), Options{Partition: "gpu", Gres: "gpu:1", Time: "2:00:00",
		MaxParallel: 8, Sbatch: []string{"--qos=a b"}})
	if err != nil {
		t.Fatal(err)
	}
	commands := s.Commands()
	if len(commands) != 2 || !strings.Contains(commands[0], "--array=0-999%4 ") ||
		!strings.Contains(commands[1], "--array=0-199%4 ") ||
		!strings.HasSuffix(commands[1], "job.sh 1000") || !strings.Contains(commands[0], " --partition=gpu --gres=gpu:1 "+
		"--time=2:00:00 '--qos=a b' ") {
		t.Errorf("%q", commands)
	}
	s.MaxParallel = 1 // Each array has one at least.
	for _, c := range s.Commands() {
		if !strings.Contains(c, "%1 ") {
			t.Error(c)
		}
	}
	if text := s.Script(); !strings.HasPrefix(text, "#!/bin/bash\n") ||
		!strings.Contains(text, "\nexec -a \"$program\" /proc/self/fd/9 runs make ") {
		t.Error(text)
	}
}

func TestQueue(t *testing.T) {
	s := &Submission{manifest: manifest{ID: "x", Chunk: 10, Tasks: make([]Task, 12)}}
	q := make(queued)
	q.read("dmlx-x-0|7|0|CANCELLED|None\ndmlx-x-0|9|0|PENDING|Priority\ndmlx-x-0|8|0|FAILED|NonZeroExitCode\n" +
		"dmlx-x-0|7|1|RUNNING|None\ndmlx-x-0|9|1|COMPLETED|None\ndmlx-x-0|7|N/A|CANCELLED|None\n" +
		"dmlx-x-10|5|1|OUT_OF_MEMORY|None\nnonsense\n")
	want := []queueState{0: {"PENDING", "Priority", "9"}, 1: {"RUNNING", "None", "7"}, 2: {"CANCELLED", "None", "7"},
		11: {"OUT_OF_MEMORY", "None", "5"}}
	for n := range s.Tasks {
		expected := queueState{}
		switch {
		case n < 3 || n == 11:
			expected = want[n]
		case n < 10:
			expected = want[2]
		}
		if got := q.at(s, n); got != expected {
			t.Errorf("task %d: %+v, want %+v", n, got, expected)
		}
	}
	if p := q.at(s, 0); !p.active() || p.running() {
		t.Error("a pending task waits")
	}
	for reason, held := range map[string]bool{"launch failed requeued held": true, "launch_failed_requeued_held": true,
		"JobHoldMaxRequeue": true, "JobHeldUser": false, "Priority": false} {
		if p := (queueState{"PENDING", reason, "9"}); p.held() != held {
			t.Errorf("%s: held %v", reason, p.held())
		}
	}
	if p := q.at(s, 1); !p.active() || !p.running() {
		t.Error("a running task runs")
	}
	if got := s.arrays([]int{11, 0, 1, 2, 5}); !reflect.DeepEqual(got, []jobArray{{0, []int{0, 1, 2, 5}}, {10,
		[]int{1}}}) || indexRanges(got[0].indices) != "0-2,5" {
		t.Errorf("%+v", got)
	}
}

func TestTimeEnds(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.Local)
	for job, want := range map[string]bool{
		"JobId=1 JobState=RUNNING Reason=None EndTime=2026-01-01T12:01:00": true,
		"JobId=1 JobState=RUNNING Reason=None EndTime=2026-01-01T13:01:00": false,
		"JobId=1 JobState=RUNNING EndTime=Unknown":                         false,
		"JobId=1 JobState=CANCELLED EndTime=2026-01-01T12:00:00":           false,
	} {
		if got := timeEnds(job, now); got != want {
			t.Errorf("%s: %v", job, got)
		}
	}
}

// A task whose time ends before its epoch does is requeued once, and then gives up.
func TestTimeTooShortForAnEpoch(t *testing.T) {
	t.Run("job", func(t *testing.T) { timeTooShort(t, "5", "", "") })
	t.Run("array", func(t *testing.T) { timeTooShort(t, "5_7", "5", "7") }) // The job 5 is all of it.
}

// timeTooShort has turns end early in the task that Slurm's commands call id.
func timeTooShort(t *testing.T, id, array, index string) {
	bin := t.TempDir()
	t.Setenv("PATH", bin) // In it is all of Slurm that a task calls.
	t.Setenv("SLURM_JOB_ID", "5")
	t.Setenv("SLURM_ARRAY_JOB_ID", array)
	t.Setenv("SLURM_ARRAY_TASK_ID", index)
	end := time.Now().Add(30 * time.Second).Format("2006-01-02T15:04:05")
	fake := "#!/bin/sh\necho \"$*\" >> " + bin + "/calls\necho JobId=5 JobState=RUNNING EndTime=" + end + "\n"
	if err := os.WriteFile(filepath.Join(bin, "scontrol"), []byte(fake), 0o755); err != nil {
		t.Fatal(err)
	}
	store := openStore(t, filepath.Join(t.TempDir(), "runs"))
	s, err := Plan(t.Context(), store, jobs(1), Options{})
	if err == nil {
		err = s.write()
	}
	if err != nil {
		t.Fatal(err)
	}
	turn := func(steps int) error { // One that is ended after so many steps.
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := Worker{Open: openGo, Progress: func(runs.Progress) {
			if steps--; steps == 0 {
				cancel()
			}
		}}
		return w.Run(ctx, s.path(manifestFile), 0)
	}
	requeued := func() int {
		calls, err := os.ReadFile(filepath.Join(bin, "calls"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(calls), "show job ") != strings.Count(string(calls), "show job "+id+"\n") {
			t.Errorf("asked for other jobs than %s:\n%s", id, calls)
		}
		return strings.Count(string(calls), "requeue "+id+"\n")
	}
	for i, steps := range []int{2, 6, 5} { // The second and the third turn get an epoch further.
		if err := turn(steps); !errors.Is(err, context.Canceled) || requeued() != i+1 {
			t.Fatalf("turn %d: %v, requeued %d times", i+1, err, requeued())
		}
		if f, err := s.failure(0); f != nil || err != nil {
			t.Errorf("turn %d: %+v, %v", i+1, f, err)
		}
	}
	if err := turn(2); err == nil || !strings.Contains(err.Error(), "raise it with --time") || requeued() != 3 {
		t.Errorf("the last turn got no further: %v, requeued %d times", err, requeued())
	}
	if f, err := s.failure(0); err != nil || f == nil || !strings.Contains(f.Error, "epoch 3 of 6") {
		t.Errorf("%+v, %v", f, err)
	}
	if err := turn(-1); err != nil { // With time enough it ends.
		t.Error(err)
	}
	want, err := undisturbed()
	if err != nil {
		t.Fatal(err)
	}
	if hash := s.Tasks[0].Hash; measures(t, store, hash) != want[hash] {
		t.Error("it ends elsewhere")
	}
}

// Tasks run in the store's folder: what is relative here would lead elsewhere there.
func TestFoldersAreWrittenInFull(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for set, want := range map[string]string{"": "data", "sets": "sets", "/shared/sets": "/shared/sets"} {
		t.Setenv("DMLX_DATA", set)
		t.Setenv("DMLX_CACHE", set)
		if !filepath.IsAbs(want) {
			want = filepath.Join(here, want)
		}
		got := environment()
		if !slices.Contains(got, "DMLX_DATA="+want) || slices.Contains(got, "DMLX_CACHE="+want) != (set != "") {
			t.Errorf("DMLX_DATA=%s: tasks have %q", set, got)
		}
	}
}

func TestQuote(t *testing.T) {
	for text, want := range map[string]string{"": "''", "a-b=c": "a-b=c", "a b": "'a b'", "it's": `'it'\''s'`,
		"$HOME": "'$HOME'"} {
		if got := quote(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
		if out, err := exec.Command("bash", "-c", "printf %s "+quote(text)).Output(); err != nil || string(out) != text {
			t.Errorf("bash reads %q, %v", out, err)
		}
	}
}
