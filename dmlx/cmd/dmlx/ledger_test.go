package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The ledger's entries are selected by flags, and what none has is an error that lists what there is.
func TestLedgerFilter(t *testing.T) {
	store, out := atWork(t), t.TempDir()
	v := object(t, "ledger", "--store", store, "--out", out, "--table", "3", "--setting", "drawn images")
	raw, err := os.ReadFile(filepath.Join(out, "ledger-quick.csv"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")[1:]
	for _, line := range lines {
		if !strings.HasPrefix(line, "Table 3,") || !strings.Contains(line, "drawn images") {
			t.Error(line)
		}
	}
	entries := v["entries"].([]any)
	if len(lines) != 24 || len(entries) != 24 { // Six pair weights with two directions on two sets.
		t.Errorf("%d lines, %d entries", len(lines), len(entries))
	}
	told := 0
	for _, e := range entries {
		e := e.(map[string]any)
		if d, tested := e["difference"].([]any); tested && e["verdict"] == "reproduced" {
			if low, high := d[1].(float64), d[2].(float64); low <= 0 && high >= 0 || e["tests"] != 20.0 {
				t.Errorf("%v", e)
			}
			told++
		}
	}
	if told == 0 {
		t.Error("nothing is reproduced")
	}
	for _, c := range [][]string{{"--table", "9", "There are Table 2"}, {"--verdict", "x", "reproduced"},
		{"--setting", "x", "photographs"}} {
		code, _, stderr := invoke(t, "ledger", c[0], c[1], "--store", store)
		if !failed(code) || !strings.Contains(stderr, c[2]) {
			t.Errorf("%q: code %d, %q", c, code, stderr)
		}
	}
}

// What a terminal shows of the ledger are its counts by setting.
func TestLedgerText(t *testing.T) {
	code, stdout, stderr := invoke(t, "ledger", "--store", atWork(t))
	if code != 0 || !strings.Contains(stdout, "drawn images") || strings.Count(stdout, "\n") > 50 {
		t.Errorf("code %d, %q\n%s", code, stderr, stdout)
	}
	for _, former := range []string{"ledger", "claims"} {
		if code, _, stderr := invoke(t, "reproduce", former); code != 2 || !strings.Contains(stderr, "dmlx ledger") {
			t.Errorf("reproduce %s: code %d, %q", former, code, stderr)
		}
	}
}
