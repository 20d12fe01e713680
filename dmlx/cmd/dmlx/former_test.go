package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
)

// What is gone says in one line what stands in its place, and is nowhere else.
func TestFormer(t *testing.T) {
	t.Setenv("DMLX_STORE", t.TempDir())
	root := newRoot(app.New(context.Background(), io.Discard, io.Discard))
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
		code, stdout, stderr := invoke(t, "train", "--"+name, "1")
		if code != exitUsage || stdout != "" || stderr != "dmlx: --"+name+" is gone: "+instead+"\n" {
			t.Errorf("--%s: code %d, %q, %q", name, code, stdout, stderr)
		}
	}
	// A key of presets is no flag, and the error says how it is set where it can be.
	for args, want := range map[string]string{
		"train --freeze-bn all": "unknown flag: --freeze-bn: want --set freeze_bn=…",
		"rates --schedule":      "unknown flag: --schedule: want --set schedule=…",
		"dissect --optimizer x": "unknown flag: --optimizer; dmlx dissect --help lists them",
	} {
		code, _, stderr := invoke(t, strings.Fields(args)...)
		if code != exitUsage || stderr != "dmlx: "+want+"\n" {
			t.Errorf("dmlx %s: code %d, %q, want %q", args, code, stderr, want)
		}
	}
}
