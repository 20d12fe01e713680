package slurm

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gradient-surgery/dml/datasets"
)

// jobArray is a set of tasks. Their indices in Slurm are their numbers minus offset.
type jobArray struct {
	offset  int
	indices []int
}

func (s *Submission) arrays(tasks []int) []jobArray {
	var out []jobArray
	for _, n := range slices.Sorted(slices.Values(tasks)) {
		offset := n / s.Chunk * s.Chunk
		if len(out) == 0 || out[len(out)-1].offset != offset {
			out = append(out, jobArray{offset: offset})
		}
		last := &out[len(out)-1]
		last.indices = append(last.indices, n-offset)
	}
	return out
}

// indexRanges formats ascending indices for sbatch: 0-3,7.
func indexRanges(indices []int) string {
	var out []string
	for i := 0; i < len(indices); {
		j := i
		for j+1 < len(indices) && indices[j+1] == indices[j]+1 {
			j++
		}
		if i == j {
			out = append(out, fmt.Sprint(indices[i]))
		} else {
			out = append(out, fmt.Sprintf("%d-%d", indices[i], indices[j]))
		}
		i = j + 1
	}
	return strings.Join(out, ",")
}

// signalSeconds is how long before its time limit a task receives a signal, so that it can ask to be requeued.
const signalSeconds = 60

// arguments returns the arguments of sbatch for one of several arrays that are submitted together.
func (s *Submission) arguments(a jobArray, together int) []string {
	indices := indexRanges(a.indices)
	if s.MaxParallel > 0 {
		indices += fmt.Sprintf("%%%d", max(s.MaxParallel/together, 1))
	}
	args := []string{"--parsable", "--job-name=" + s.arrayName(a.offset), "--array=" + indices,
		"--requeue", "--open-mode=append", fmt.Sprintf("--signal=B:TERM@%d", signalSeconds), "--chdir=" + s.store.Dir,
		"--output=" + escapePattern(s.path(filepath.Join(logDir, fmt.Sprintf("%d-", a.offset)))) + "%a.txt"}
	return append(args, s.Sbatch...)
}

// onDevices returns the options for tasks on a number of devices: they ask for as many GPUs if Gres is not set.
func (o Options) onDevices(devices int) (Options, error) {
	if devices <= 1 {
		return o, nil
	}
	if o.Gres == "" {
		o.Gres = fmt.Sprintf("gpu:%d", devices)
	}
	for resource := range strings.SplitSeq(o.Gres, ",") { // As in gpu, gpu:4 and gpu:a100:4.
		parts := strings.Split(resource, ":")
		n, err := strconv.Atoi(parts[len(parts)-1])
		if err != nil {
			n = 1
		}
		if parts[0] == "gpu" && n < devices {
			return o, fmt.Errorf("--gres %s gives a task fewer GPUs than its %d devices: want gpu:%d", o.Gres, devices, devices)
		}
	}
	return o, nil
}

// sbatchOptions returns the options of sbatch.
func (o Options) sbatchOptions() []string {
	var args []string
	for _, option := range [][2]string{{"--partition", o.Partition}, {"--gres", o.Gres}, {"--time", o.Time}} {
		if option[1] != "" {
			args = append(args, option[0]+"="+option[1])
		}
	}
	return append(args, o.Sbatch...)
}

// escapePattern escapes a path in which Slurm would expand patterns.
func escapePattern(path string) string { return strings.ReplaceAll(path, "%", "%%") }

// Commands returns the commands that would submit the submission, with [Submission.Script] in a file job.sh.
func (s *Submission) Commands() []string {
	var out []string
	arrays := s.arrays(s.ownTasks())
	for _, a := range arrays {
		words := []string{"sbatch"}
		for _, arg := range s.arguments(a, len(arrays)) {
			words = append(words, quote(arg))
		}
		out = append(out, strings.Join(append(words, "job.sh", fmt.Sprint(a.offset)), " "))
	}
	return out
}

// variableName matches the names of shell variables. Other names are not passed on, because a shell could run them as
// commands.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// environment returns the variables of this process that affect training. They are part of the batch script, because
// not all clusters pass the environment on. Relative paths are made absolute, because tasks run in another folder.
func environment() []string {
	var out []string
	if dir, err := filepath.Abs(datasets.DataDir()); err == nil {
		out = append(out, datasets.DataEnv+"="+dir)
	}
	// Otherwise each node uses its default.
	if dir, err := datasets.CacheDir(); err == nil && os.Getenv(datasets.CacheEnv) != "" {
		out = append(out, datasets.CacheEnv+"="+dir)
	}
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if name == datasets.DataEnv || name == datasets.CacheEnv || !variableName.MatchString(name) {
			continue
		}
		takes := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		if slices.ContainsFunc([]string{"GOMLX_", "DMLX_", "XLA_", "PJRT_", "TF_CPP_", "TF_ENABLE_", "TF_GPU_", "TF_XLA_"},
			takes) ||
			slices.Contains([]string{"XDG_CACHE_HOME", "HF_HOME", "LD_LIBRARY_PATH"}, name) {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

// script returns a batch script that replaces itself with the program, because Slurm sends signals to the process of
// the script. The script opens the program once, so that it starts the file that it has checked.
func (s *Submission) script(args ...string) string {
	var b strings.Builder
	b.WriteString("#!/bin/bash\n")
	for _, v := range s.Environment {
		if name, value, _ := strings.Cut(v, "="); variableName.MatchString(name) {
			fmt.Fprintf(&b, "export %s=%s\n", name, quote(value))
		}
	}
	fmt.Fprintf(&b, "program=%s\n", quote(s.program()))
	fmt.Fprintf(&b, "[ -x \"$program\" ] || "+
		"{ echo \"$(hostname) does not see $program: is the run store on a shared file system?\" >&2; exit %d; }\n",
		exitNotSeen)
	fmt.Fprintf(&b, "exec 9<\"$program\" || exit %d\n", exitNotSeen)
	b.WriteString("sum=$(sha256sum <&9)\n")
	fmt.Fprintf(&b, "[ -O /proc/self/fd/9 ] && [ \"${sum%%%% *}\" = %s ] || ", quote(s.Digest))
	fmt.Fprintf(&b, "{ echo \"$program is not what was submitted\" >&2; exit %d; }\n", exitNotSame)
	b.WriteString("exec -a \"$program\" /proc/self/fd/9")
	for _, a := range args {
		fmt.Fprintf(&b, " %s", a)
	}
	b.WriteString("\n")
	return b.String()
}

// Script returns the batch script of the arrays.
func (s *Submission) Script() string {
	return s.script("runs", "make", "--manifest", quote(s.path(manifestFile)), "--task", `"$(($1 + SLURM_ARRAY_TASK_ID))"`)
}

// quote returns a text as one word of the shell.
func quote(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_=/.,:%@+", r)
	}
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
