package main

import _ "embed"

// optunaScript searches by trainings of this program; dmlx help optuna prints it.
//
//go:embed tune.py
var optunaScript string
