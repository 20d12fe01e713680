package main

import "github.com/gradient-surgery/dml/dmlx"

// rule reads a rule by its name and warns once of a name that the rule no longer has.
func (a *app) rule(name string) (dmlx.Rule, error) {
	if notice := dmlx.FormerName(name); notice != "" {
		a.warn(notice)
	}
	return dmlx.ParseRule(name)
}
