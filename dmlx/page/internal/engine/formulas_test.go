package engine

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// What is typed becomes a rule, whose pictures are drawn; a fault says its field and character.
func TestFormulas(t *testing.T) {
	e := start(t)
	fields := func(positive, negative, triplet, mask, numbers string) string {
		raw, err := json.Marshal(map[string]any{"fields": map[string]string{"positive": positive, "negative": negative,
			"triplet": triplet, "mask": mask, "numbers": numbers}})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	got := ask(t, e, "formula", fields(" 1-Sap", "San*k", "max(0,San-Sap+m)", "San>Sap", "m=0.50,  k=2, unused=1"))
	if len(got["faults"].([]Object)) != 0 || got["pair"] != "[1-Sap, San*k, k=2]" ||
		got["triplet"] != "[max(0, San-Sap+m), m=0.5]" ||
		got["mask"] != "[San > Sap]" {
		t.Error(got)
	}
	for _, c := range []struct {
		typed, field string
		at           int
		what         string
	}{
		{fields("1-Spa", "San", "1", "", ""), "positive", 2, "did you mean Sap?"},
		{fields("1", "San", "1+", " ", ""), "triplet", 2, "expected operand"},
		{fields("1", "San", "1", "San", ""), "mask", 0, "want a condition"},
		{fields("1", "San, Sap", "1", "", ""), "negative", 4, "want one formula"},
		{fields("1", "San", "1", "", "k=4, tau=2"), "numbers", 5, "tau is a number of rules"},
		{fields("1", "San", "1", "", "k=4x"), "numbers", 0, "k needs a finite number"},
	} {
		faults := ask(t, e, "formula", c.typed)["faults"].([]Object)
		if len(faults) != 1 || faults[0]["field"] != c.field || faults[0]["at"] != c.at ||
			!strings.Contains(faults[0]["what"].(string), c.what) {
			t.Errorf("%s: %v", c.typed, faults)
		}
	}
}

// The examples are rules with finite pictures, each drawn at a keystroke's pace, and with code.
func TestExamples(t *testing.T) {
	e := start(t)
	listed := ask(t, e, "describe", "{}")["examples"].([]Object)
	if len(listed) < 10 {
		t.Errorf("%d examples", len(listed))
	}
	for _, x := range listed {
		rule := x["rule"].(string)
		p := ask(t, e, "parse", `{"rule":"`+rule+`"}`)
		if p["name"] != rule || p["literal"] != `dmlx.ParseRule("`+rule+`")` ||
			!strings.Contains(p["command"].(string), "'"+rule+"'") ||
			!strings.Contains(p["pytorch"].(string), "class Surgery") || !strings.Contains(p["jax"].(string), "class Surgery") ||
			!strings.Contains(p["latex"].(string), "T=") || p["loss"] == "" ||
			slices.ContainsFunc(p["remarks"].([]string), func(r string) bool { return strings.Contains(r, "finite") }) {
			t.Errorf("%s: %v", rule, p)
		}
		f := p["formulas"].(Object)
		again := ask(t, e, "formula", `{"fields":{"positive":"`+f["positive"].(string)+
			`","negative":"`+f["negative"].(string)+
			`","triplet":"`+f["triplet"].(string)+`","mask":"`+f["mask"].(string)+
			`","numbers":"`+f["numbers"].(string)+`"}}`)
		if name := "/" + again["pair"].(string) + "/" + again["triplet"].(string); !strings.Contains(rule, name) {
			t.Errorf("%s is typed as %v", rule, again)
		}
		begin := time.Now()
		d := ask(t, e, "diagram", `{"rule":"`+rule+`"}`)
		ask(t, e, "compute", `{"rule":"`+rule+`",`+small+`}`)
		took := time.Since(begin)
		if slices.ContainsFunc(d["weight"].([]float32), func(v float32) bool { return v-v != 0 }) {
			t.Errorf("%s has weights that are not finite", rule)
		}
		t.Logf("%s: %v", rule, took)
	}
}
