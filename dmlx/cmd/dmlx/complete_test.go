package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// words returns what the shells' scripts ask for: the completions of a command line's last word.
func words(t *testing.T, args ...string) []string {
	t.Helper()
	code, stdout, stderr := invoke(t, append([]string{"__completeNoDesc"}, args...)...)
	if code != 0 {
		t.Fatalf("%s: code %d, %s", args, code, stderr)
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	last := args[len(args)-1]
	return slices.DeleteFunc(lines[:len(lines)-1], func(line string) bool { // The last is cobra's directive.
		return !strings.HasPrefix(line, last[strings.IndexByte(last, '=')+1:]) // As the shells do.
	})
}

func TestCompletions(t *testing.T) {
	store := filepath.Join(atWork(t), "runs")
	t.Setenv("DMLX_STORE", store)
	for _, c := range []struct {
		args []string
		want string // The completions, with spaces between them.
	}{
		{[]string{"reprod"}, "reproduce"},
		{[]string{"train", "--mic"}, "--micro-batch"},
		{[]string{"train", "--preset", "s"}, "smoke"},
		{[]string{"train", "--loss", "proxy-"}, "proxy-nca proxy-nca++ proxy-anchor"},
		{[]string{"train", "--data", "minic"}, "minicar"},
		{[]string{"train", "--arch", "resnet"}, "resnet18 resnet50"},
		{[]string{"train", "--rule", "cos/lin/cir"}, "cos/lin/cir cos/lin/cir+sc1 cos/lin/cir+sc2"},
		{[]string{"train", "--rule", "cos/con/[max(0,Sa"}, "cos/con/[max(0,Sap cos/con/[max(0,San"},
		{[]string{"rule", "cos/[1-Sap, s"}, "cos/[1-Sap, sqrt( cos/[1-Sap, sigmoid( cos/[1-Sap, softplus("},
		{[]string{"rule", "cos/[1-ta"}, "cos/[1-tau cos/[1-tanh("},
		{[]string{"rule", "cos/[1-Sap, San]/co"}, ""},
		{[]string{"train", "--set", "rec"}, "recompute="},
		{[]string{"reproduce", "figure"}, "figure1 figure4 figure5"},
		{[]string{"data", "verify", ""}, "cub cars sop inshop"},
		{[]string{"completion", ""}, "bash fish powershell zsh"},
		{[]string{"help", "runs", "ver"}, "verify"},
		{[]string{"runs", "show", ""}, ""},
		// A wrong rule or loss is told when the command runs; it hinders neither what follows nor the help.
		{[]string{"train", "--rule", "x/y", "--loss", "x", "--mic"}, "--micro-batch"},
		{[]string{"rates", "--loss", "x", "--preset", "s"}, "smoke"},
		{[]string{"reproduce", "table3", "--add-rule", " = cos", "--add-loss", "x", "--arch", "resnet1"}, "resnet18"},
	} {
		if got := strings.Join(words(t, c.args...), " "); got != c.want {
			t.Errorf("dmlx %s: %q, want %q", c.args, got, c.want)
		}
	}
	if code, help, _ := invoke(t, "train", "--rule", "x/y", "--loss", "x", "--help"); code != 0 ||
		!strings.Contains(help, "--micro-batch") {
		t.Errorf("help after a wrong rule: code %d, %q", code, help)
	}
	if _, err := os.Stat(store); err == nil {
		t.Error("completion has created a store")
	}
	run := object(t, append(smallRun, "--store", store)...)["run"].(string)
	if got := words(t, "runs", "compare", run[:3]); !slices.Equal(got, []string{run}) {
		t.Errorf("runs of the store: %q, want %s", got, run)
	}
}

// shell returns the path of a shell that is installed.
func shell(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("needs %s", name)
	}
	return path
}

// inPath puts a dmlx on the PATH: this test's program, which TestMain lets act as the command.
func inPath(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	script := "#!/bin/sh\nDMLX_TEST_COMMAND=1 exec '" + self + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "dmlx"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// A real bash completes with the script, as if Tab were pressed: the script's function sets COMPREPLY.
func TestCompletionInBash(t *testing.T) {
	bash := shell(t, "bash")
	const library = "/usr/share/bash-completion/bash_completion"
	if _, err := os.Stat(library); err != nil {
		t.Skip("needs the package bash-completion")
	}
	inPath(t)
	script := `source ` + library + `
source <(dmlx completion bash)
complete -p dmlx
press() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
  COMPREPLY=(); __start_dmlx dmlx "${@: -1}" "${@: -2:1}" 2>/dev/null
  echo "$*: ${COMPREPLY[*]%% *}"
}
press dmlx reprod
press dmlx train --rule cos-orth/li
press dmlx train --rule cos/[1-Sa
press dmlx train --loss triplet-
press dmlx data verify so
`
	cmd := exec.Command(bash, "--norc", "--noprofile", "-c", script)
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"complete -o default -F __start_dmlx dmlx\n", "dmlx reprod: reproduce\n",
		"dmlx train --rule cos-orth/li: cos-orth/lin/con", "cos/[1-Sa: cos/[1-Sap cos/[1-San\n",
		"dmlx train --loss triplet-: triplet-soft\n",
		"dmlx data verify so: sop\n"} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("no %q in %v:\n%s", want, err, out)
		}
	}
}

// The scripts for zsh and fish have no syntax errors, and fish completes with its own.
func TestCompletionInOtherShells(t *testing.T) {
	t.Run("zsh", func(t *testing.T) {
		zsh := shell(t, "zsh")
		_, script, _ := invoke(t, "completion", "zsh")
		cmd := exec.Command(zsh, "-n")
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(script, "#compdef dmlx\n") {
			t.Errorf("%v: %s", err, out)
		}
	})
	t.Run("fish", func(t *testing.T) {
		fish := shell(t, "fish")
		inPath(t)
		t.Setenv("HOME", t.TempDir())
		out, err := exec.Command(fish, "--no-config", "-c",
			"dmlx completion fish | source; complete --do-complete 'dmlx train --preset sm'").CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != "smoke" {
			t.Errorf("%v: %q", err, out)
		}
	})
}
