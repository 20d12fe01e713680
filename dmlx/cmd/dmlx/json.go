package main

import (
	_ "embed"
	"regexp"
	"strings"
)

//go:embed JSON.md
var jsonPage string

// jsonHelp returns the page about what --json prints as plain text.
func jsonHelp() string {
	text := regexp.MustCompile("`([^`]*)`").ReplaceAllString(jsonPage, "$1")
	return strings.TrimSpace(text) + "\n"
}
