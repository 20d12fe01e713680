package main

import "github.com/gradient-surgery/dml/dmlx"

// rule parses a rule and warns once if its name is a former one.
func (a *app) rule(name string) (dmlx.Rule, error) {
	if notice := dmlx.FormerName(name); notice != "" {
		a.warn(notice)
	}
	return dmlx.ParseRule(name)
}
