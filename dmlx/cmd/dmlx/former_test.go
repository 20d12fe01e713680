package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
)

// What is gone says in one line what stands in its place, and is nowhere else.
func TestFormer(t *testing.T) {
	t.Setenv("DMLX_STORE", t.TempDir())
	root := newRoot(cli.New(context.Background(), io.Discard, io.Discard))
	for path, instead := range formerCommands {
		words := strings.Fields(path)
		if cmd, _, err := root.Find(words); err != nil || !cmd.Hidden {
			t.Errorf("dmlx %s is there, or not found: %v", path, err)
		}
		code, stdout, stderr := invoke(t, append(words, "some", "--argument")...)
		if want := "dmlx: dmlx " + path + " is gone: " + instead + "\n"; code != exitUsage || stdout != "" || stderr != want {
			t.Errorf("dmlx %s: code %d, %q, %q, want %q", path, code, stdout, stderr, want)
		}
	}
	for name, instead := range formerFlags {
		if name == "preset" || name == "store" {
			continue
		}
		command := map[string][]string{ // Others have these flags.
			"out": {"dissect"}, "keep": {"data", "get"}}[name]
		if command == nil {
			command = []string{"train"}
		}
		code, stdout, stderr := invoke(t, append(command, "--"+name, "1")...)
		if code != exitUsage || stdout != "" || stderr != "dmlx: --"+name+" is gone: "+instead+"\n" {
			t.Errorf("--%s: code %d, %q, %q", name, code, stdout, stderr)
		}
	}
}
