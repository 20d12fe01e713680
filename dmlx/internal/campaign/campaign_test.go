//go:build unix

// Package campaign attacks runs and their stores: it kills, damages, fills disks, and plants links and
// strangers' runs and files. Whatever happens, a run must come back with the numbers of an undisturbed one, to the bit,
// or be refused with an error.
//
// An ordinary go test takes about two minutes for it. A longer campaign, which prints its table, is
//
//	go test ./dmlx/internal/campaign -run Campaign -campaign 30m -timeout 45m -v
//
// All commands are those of a dmlx that the test builds, on the Go backend; the readers of files are called in the
// test's own process. What a command prints for people is not looked at: exit codes, files, sums and JSON decide.
package campaign

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/gradient-surgery/dml/datasets/fixtures"
)

var (
	campaignFor   = flag.Duration("campaign", 0, "how long to attack (default: 100 s)")
	campaignSeed  = flag.Uint64("campaign.seed", 0, "first `seed` of the campaign (default: one of the clock)")
	campaignTry   = flag.String("campaign.try", "", "repeat one try, or one kind of attack: `attack[/seed]`")
	campaignTable = flag.String("campaign.table", "", "also write the table to this `file`")
)

// attacks are the kinds of attack, in turn. share is how many seconds each gets in a turn.
var attacks = []struct {
	name  string
	share time.Duration
	try   func(*try)
}{
	{"SIGKILL of a training", 4, killTraining},
	{"damaged file of a finished run", 2, damageFinished},
	{"damaged file of an unfinished run", 3, damageUnfinished},
	{"foreign run in a store", 2, foreignRun},
	{"damaged npy", 1, damageNPY},
	{"damaged jpeg or png", 1, damageImage},
	{"damaged mat", 1, damageMAT},
	{"damaged safetensors", 1, damageSafetensors},
	{"damaged cache of images", 1, damageCache},
	{"full disk", 2, fullDisk},
	{"link in a store", 2, plantLink},
	{"other owner of a store", 2, otherOwner},
	{"stranger's submission", 1, strangersSubmission},
	{"8 processes on a store", 4, manyProcesses},
	{"damaged bomb for a reader", 3, damageBomb},
	{"damaged onnx, pth or preset", 1, damageForeign},
	{"damaged images to embed", 2, embedDamaged},
	{"pipe or link beside the runs", 2, plantBeside},
	{"SIGKILL or no room for embedded rows", 4, killEmbed},
	{"output that is a device, link or input", 2, oddOutput},
	{"other opset or mode of an onnx", 1, otherOpset},
	{"labels as other programs write them", 2, alikeLabels},
}

// counts are what became of an attack's tries.
type counts struct {
	Tries, Refused, Identical                int
	Lost, Panics, Wrong, Escapes, ForeignRun int
	skipped                                  string
}

func (n *counts) bad() int { return n.Lost + n.Panics + n.Wrong + n.Escapes + n.ForeignRun }

// campaign is what all tries share.
type campaign struct {
	t       *testing.T
	dir     string
	program string
	env     []string
	specs   []spec
	store   string   // All specs' runs, finished.
	stopped []string // Stores of one unfinished run each,
	of      []int    // and of which spec it is.
	images  string   // A folder of images, which is a data set.
}

// spec is a run that is trained, with what must come of it.
type spec struct {
	args    []string
	hash    string
	numbers string
	took    time.Duration
}

// try is one attack, decided by its seed but for what the clock does.
type try struct {
	*campaign
	*rand.Rand
	*counts
	name string
	seed uint64
	dir  string // A folder of its own.

	mu sync.Mutex
}

// fail counts a failure and says how to repeat it.
func (t *try) fail(count *int, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*count++
	t.t.Errorf("%s: %s\n    repeat: -campaign.try %q", t.name, fmt.Sprintf(format, args...),
		fmt.Sprintf("%s/%d", t.name, t.seed))
}

// must ends the campaign if its own preparations fail.
func (t *campaign) must(err error) {
	t.t.Helper()
	if err != nil {
		t.t.Fatalf("the campaign cannot go on: %v\n%s", err, debug.Stack())
	}
}

func TestCampaign(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes two minutes")
	}
	duration := *campaignFor
	if duration == 0 {
		duration = 100 * time.Second
	}
	if deadline, limited := t.Deadline(); limited && time.Until(deadline) < duration+3*time.Minute {
		t.Fatalf("the campaign takes %s, and go test ends it before: add -timeout %s", duration, duration+15*time.Minute)
	}
	seed := *campaignSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	fmt.Printf("campaign: seed %d, %s\n", seed, duration)
	c := prepare(t)

	only, one, single := strings.Cut(*campaignTry, "/")
	master := rand.New(rand.NewPCG(seed, 0))
	all := make([]counts, len(attacks))
	begun := time.Now()
	bad := func() (sum int) {
		for _, n := range all {
			sum += n.bad()
		}
		return sum
	}
	const enough = 20 // Failures, to know what is wrong.
	for turn := 0; time.Since(begun) < duration && bad() < enough; turn++ {
		if turn > 0 && single {
			break
		}
		for k, a := range attacks {
			if only != "" && only != a.name {
				continue
			}
			for from := time.Now(); all[k].skipped == "" && time.Since(begun) < duration; {
				s := master.Uint64()
				if single {
					var err error
					s, err = strconv.ParseUint(one, 10, 64)
					c.must(err)
				}
				c.attempt(a.name, s, &all[k], a.try)
				if single || time.Since(from) > a.share*time.Second {
					break
				}
			}
		}
	}
	c.report(all, seed, time.Since(begun))
}

// attempt is one try in a folder of its own.
func (c *campaign) attempt(name string, seed uint64, n *counts, attack func(*try)) {
	dir, err := os.MkdirTemp(c.dir, "try-")
	c.must(err)
	c.must(os.Chmod(dir, 0o755))
	defer os.RemoveAll(dir)
	t := &try{campaign: c, Rand: rand.New(rand.NewPCG(seed, 1)), counts: n, name: name, seed: seed, dir: dir}
	n.Tries++
	defer func() {
		if r := recover(); r != nil {
			t.fail(&n.Panics, "%v\n%s", r, debug.Stack())
		}
	}()
	attack(t)
	if n.skipped != "" {
		n.Tries--
	}
}

// report prints the table.
func (c *campaign) report(all []counts, seed uint64, took time.Duration) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "attack\ttries\trefused\tidentical\tlost runs\tpanics\twrong numbers\tescapes\tforeign code run")
	var sum counts
	line := func(name string, n counts) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", name, n.Tries, n.Refused, n.Identical, n.Lost, n.Panics,
			n.Wrong, n.Escapes, n.ForeignRun)
	}
	var notes []string
	for k, a := range attacks {
		n := all[k]
		if n.skipped != "" {
			notes = append(notes, fmt.Sprintf("%s: skipped: %s", a.name, n.skipped))
		}
		line(a.name, n)
		sum.Tries, sum.Refused, sum.Identical = sum.Tries+n.Tries, sum.Refused+n.Refused, sum.Identical+n.Identical
		sum.Lost, sum.Panics, sum.Wrong = sum.Lost+n.Lost, sum.Panics+n.Panics, sum.Wrong+n.Wrong
		sum.Escapes, sum.ForeignRun = sum.Escapes+n.Escapes, sum.ForeignRun+n.ForeignRun
	}
	line("all", sum)
	c.must(w.Flush())
	for _, n := range notes {
		fmt.Fprintln(&b, n)
	}
	fmt.Fprintf(&b, "%s, %s, seed %d\n", time.Now().UTC().Format(time.DateOnly), took.Round(time.Second), seed)
	fmt.Print(b.String())
	if *campaignTable != "" {
		c.must(os.WriteFile(*campaignTable, []byte(b.String()), 0o644))
	}
}

// prepare builds the program and trains the runs that are attacked.
func prepare(t *testing.T) *campaign {
	c := &campaign{t: t, dir: t.TempDir()}
	c.must(os.Chmod(filepath.Dir(c.dir), 0o755)) // Other users are to find the program.
	c.must(os.Chmod(c.dir, 0o755))
	c.program = filepath.Join(c.dir, "dmlx")
	const command = "github.com/gradient-surgery/dml/dmlx/cmd/dmlx"
	out, err := exec.Command("go", "build", "-o", c.program, command).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, d := range []string{"cache", "home", "tmp"} {
		c.must(os.MkdirAll(filepath.Join(c.dir, d), 0o777))
		c.must(os.Chmod(filepath.Join(c.dir, d), 0o777)) // Of other users, too.
	}
	c.must(fixtures.Make("inshop", filepath.Join(c.dir, "data")))
	c.images = filepath.Join(c.dir, "photographs")
	c.must(drawImages(c.images))
	bin, cache := filepath.Join(c.dir, "bin"), filepath.Join(c.dir, "cache")
	c.must(os.MkdirAll(bin, 0o755))
	keep := "#!/bin/bash\ncat > \"$SCRIPT\"\necho 7\n" // A Slurm that keeps what it is sent.
	c.must(os.WriteFile(filepath.Join(bin, "sbatch"), []byte(keep), 0o755))
	c.env = []string{
		"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + filepath.Join(c.dir, "home"),
		"TMPDIR=" + filepath.Join(c.dir, "tmp"), "GOMLX_BACKEND=go", "DMLX_CACHE=" + cache,
		"DMLX_DATA=" + filepath.Join(c.dir, "data"), "SLURM_ARRAY_TASK_ID=0",
	}
	common := []string{"train", "--json", "--preset", "smoke", "--set", "size=16", "--batch", "2x2", "--epochs", "4",
		"--set", "steps=2", "--dim", "8", "--weights", "random"}
	for _, own := range [][]string{
		{"--data", "minicar", "--rule", "cos/con/con", "--seeds", "1"},
		{"--data", "minicar", "--loss", "proxy-anchor", "--seeds", "2"},
		{"--data", c.images, "--rule", "cos-orth/lin-ms/cir", "--micro-batch", "2"},
		{"--data", "inshop", "--set", "allow_partial=true", "--loss", "ms, miner ms"},
	} {
		c.specs = append(c.specs, spec{args: slices.Concat(common, own)})
	}
	c.store = filepath.Join(c.dir, "reference")
	for i := range c.specs {
		s := &c.specs[i]
		from := time.Now()
		r := c.start(nil, c.with(c.store, s.args...)...).wait()
		s.took = time.Since(from)
		if r.code != 0 {
			t.Fatalf("%v: exit code %d\n%s", s.args, r.code, r.stderr)
		}
		s.hash, s.numbers, err = numbers(r.stdout)
		c.must(err)
	}
	c.stop()
	return c
}

// stop makes stores with an unfinished run: for each spec one after the first epoch, and one after the third.
func (c *campaign) stop() {
	for i, s := range c.specs {
		for _, epoch := range []int{1, 3} {
			for again := 0; ; again++ {
				if again == 50 {
					c.t.Fatalf("run %s could not be stopped after epoch %d", s.hash, epoch)
				}
				dir := filepath.Join(c.dir, fmt.Sprintf("stopped-%d-%d-%d", i, epoch, again))
				child := c.start(nil, c.with(dir, s.args...)...)
				for !child.ended() && epochOf(dir, s.hash) < epoch {
					time.Sleep(500 * time.Microsecond)
				}
				child.kill()
				child.wait()
				if !exists(filepath.Join(dir, s.hash, "result.json")) && epochOf(dir, s.hash) >= epoch {
					c.stopped, c.of = append(c.stopped, dir), append(c.of, i)
					break
				}
			}
		}
	}
}

func epochOf(store, hash string) int {
	var state struct {
		Epoch int `json:"epoch"`
	}
	raw, err := os.ReadFile(filepath.Join(store, hash, "checkpoint", "state.json"))
	if err != nil || json.Unmarshal(raw, &state) != nil {
		return 0
	}
	return state.Epoch
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// with is a command line with its store.
func (c *campaign) with(store string, args ...string) []string {
	return append(slices.Clone(args), "--store", store)
}

// drawImages makes a folder that is a data set: 4 classes of 3 images, JPEG and PNG.
func drawImages(dir string) error {
	for class := range 4 {
		folder := filepath.Join(dir, fmt.Sprintf("class-%d", class))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		for n := range 3 {
			im := image.NewRGBA(image.Rect(0, 0, 24, 20))
			for y := range 20 {
				for x := range 24 {
					im.SetRGBA(x, y, color.RGBA{uint8(60*class + 5*x), uint8(40*n + 7*y), uint8(3*x*y + 11*class), 255})
				}
			}
			var b bytes.Buffer
			name, err := "image.jpg", error(nil)
			if n == 1 {
				name, err = "image.png", png.Encode(&b, im)
			} else {
				err = jpeg.Encode(&b, im, &jpeg.Options{Quality: 85})
			}
			if err = errors.Join(err, os.WriteFile(filepath.Join(folder, fmt.Sprint(n)+name), b.Bytes(), 0o644)); err != nil {
				return err
			}
		}
	}
	return nil
}

// child is a process of the program.
type child struct {
	cmd    *exec.Cmd
	done   chan struct{}
	cancel context.CancelFunc
	out    result
}

type result struct {
	code           int
	stdout, stderr []byte
	killed, hung   bool
	peak           int64 // Memory, in kB.
}

// patience is how long a command may take that takes less than a second on an idle machine.
const patience = 3 * time.Minute

// start starts the program. set, if not nil, changes how.
func (c *campaign) start(set func(*exec.Cmd), args ...string) *child {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	p := &child{cmd: exec.CommandContext(ctx, c.program, args...), done: make(chan struct{}), cancel: cancel}
	var stdout, stderr bytes.Buffer
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env, p.cmd.Dir = &stdout, &stderr, slices.Clone(c.env), c.dir
	p.cmd.WaitDelay = 10 * time.Second
	if set != nil {
		set(p.cmd)
	}
	if err := p.cmd.Start(); err != nil {
		cancel()
		panic(fmt.Sprintf("%v: %v", args, err))
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // The exit code tells.
		state := p.cmd.ProcessState
		p.out = result{code: state.ExitCode(), stdout: stdout.Bytes(), stderr: stderr.Bytes(), hung: ctx.Err() != nil}
		if status, ok := state.Sys().(syscall.WaitStatus); ok {
			p.out.killed = status.Signaled() && status.Signal() == syscall.SIGKILL
		}
		if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
			p.out.peak = usage.Maxrss
		}
	}()
	return p
}

func (p *child) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// endIn waits until the child has ended, or for a while.
func (p *child) endIn(d time.Duration) {
	select {
	case <-p.done:
	case <-time.After(d):
	}
}

func (p *child) kill() { _ = p.cmd.Process.Kill() }

func (p *child) wait() result {
	<-p.done
	p.cancel()
	return p.out
}

// trace is what the Go runtime writes when a program dies of its own fault.
var trace = regexp.MustCompile(`(?m)^(panic: |fatal error: |goroutine \d+ \[|SIGSEGV)`)

// run is a command to its end. A Go trace, a command that does not end and one that takes gigabytes count as panics.
func (t *try) run(args ...string) result { return t.runAs(nil, args...) }

func (t *try) runAs(set func(*exec.Cmd), args ...string) result {
	return t.check(t.start(set, args...).wait(), args...)
}

func (t *try) check(r result, args ...string) result {
	const gigabyte = 1 << 20 // In kB.
	switch {
	case trace.Match(r.stderr):
		t.fail(&t.Panics, "%v: exit code %d\n%s", args, r.code, r.stderr)
	case r.hung:
		t.fail(&t.Panics, "%v does not end", args)
	case r.peak > 2*gigabyte:
		t.fail(&t.Panics, "%v takes %d MB of memory", args, r.peak>>10)
	}
	return r
}

// numbers are those of a result, with its run: all of it but when, where and by what it was made.
func numbers(raw []byte) (hash, all string, err error) {
	var r map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&r); err != nil {
		return "", "", err
	}
	for _, key := range []string{"date", "seconds", "machine", "version", "sum", "dir"} {
		delete(r, key)
	}
	if s, ok := r["spec"].(map[string]any); ok && s["data_digest"] != nil {
		delete(s, "data") // Where a folder lies is no number.
	}
	hash, _ = r["run"].(string)
	out, err := json.Marshal(r)
	return hash, string(out), err
}

// sound tells how a finished run in a store differs from the reference, file by file; nil if it does not. The run may
// be of any spec of the campaign.
func (c *campaign) sound(store, hash string) error {
	raw, err := os.ReadFile(filepath.Join(store, hash, "result.json"))
	if err != nil {
		return err
	}
	run, have, err := numbers(raw)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(c.specs, func(s spec) bool { return s.hash == run })
	if at < 0 || run != hash {
		return fmt.Errorf("a result of run %q in the folder of %s", run, hash)
	}
	if want := c.specs[at].numbers; have != want {
		return fmt.Errorf("other numbers:\n%s\nwant\n%s", have, want)
	}
	var r struct {
		Files map[string]string `json:"files"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	for name, want := range r.Files {
		raw, err := os.ReadFile(filepath.Join(store, hash, name))
		if err != nil {
			return err
		}
		if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != want {
			return fmt.Errorf("%s has another checksum than its result says", name)
		}
	}
	return nil
}

// judge looks at a training's output, if it says that all went well: its numbers must be those of the undisturbed run.
func (t *try) judge(r result, store string, s spec, what string) (well bool) {
	if r.code != 0 {
		return false
	}
	if _, have, err := numbers(r.stdout); err != nil || have != s.numbers {
		t.fail(&t.Wrong, "%s: run %s was served with other numbers (%v):\n%s\nwant\n%s", what, s.hash, err, have, s.numbers)
		return false
	}
	if err := t.sound(store, s.hash); err != nil {
		t.fail(&t.Wrong, "%s: run %s in the store: %v", what, s.hash, err)
		return false
	}
	return true
}

// train trains a spec to its end, or says why not. It counts what comes of it.
func (t *try) train(store string, s spec, what string) {
	before := t.bad()
	r := t.run(t.with(store, s.args...)...)
	switch {
	case t.judge(r, store, s, what) && !asideIn(store):
		t.Identical++
	case t.bad() == before: // Refused, or set aside and trained again.
		t.Refused++
	}
}

// asideIn tells whether something in a store was set aside, at its top or in a run.
func asideIn(store string) bool {
	found := false
	_ = filepath.WalkDir(store, func(_ string, d fs.DirEntry, err error) error {
		found = found || err == nil && aside.MatchString(d.Name())
		return nil
	})
	return found
}

var aside = regexp.MustCompile(`\.(damaged|unfinished)-[0-9]+$`)

// runsIn are the folders of runs in a store.
func runsIn(store string) []string {
	entries, _ := os.ReadDir(store)
	var out []string
	for _, e := range entries {
		if runName.MatchString(e.Name()) {
			out = append(out, e.Name())
		}
	}
	return out
}

var runName = regexp.MustCompile(`^[0-9a-f]{12}$`)

// fresh is a copy of a store in the try's folder.
func (t *try) fresh(name, of string) string {
	to := filepath.Join(t.dir, name)
	t.must(os.CopyFS(to, os.DirFS(of)))
	return to
}

// single is a copy of the reference's run of a spec, in a store of its own.
func (t *try) single(name string, s spec) string {
	store := filepath.Join(t.dir, name)
	t.must(os.CopyFS(filepath.Join(store, s.hash), os.DirFS(filepath.Join(t.store, s.hash))))
	return store
}

// filesIn lists the files below a folder, in order.
func (t *try) filesIn(dir string) []string {
	var out []string
	t.must(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			out = append(out, path)
		}
		return err
	}))
	slices.Sort(out)
	return out
}

// pick is one of a list.
func pick[T any](t *try, from []T) T { return from[t.IntN(len(from))] }
