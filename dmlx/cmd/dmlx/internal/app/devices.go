package app

import (
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/onnx"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// AddDevices adds the flag for the number of devices. n becomes 0 if it is not given, and [train.AllDevices] for all.
func AddDevices(f *pflag.FlagSet, n *int) {
	f.Var((*deviceCount)(n), "devices", "devices, such as GPUs, that share the rows of each batch, or all (default 1)")
}

// deviceCount is the value of --devices.
type deviceCount int

func (*deviceCount) Type() string { return "N|all" }

func (d *deviceCount) String() string {
	switch *d {
	case 0:
		return ""
	case train.AllDevices:
		return "all"
	}
	return strconv.Itoa(int(*d))
}

func (d *deviceCount) Set(text string) error {
	if text == "all" {
		*d = train.AllDevices
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return cli.Usagef("want a number of devices from 1 on, or all")
	}
	*d = deviceCount(n)
	return nil
}

// BackendOn is [App.BackendFor] on a number of devices.
func (a *App) BackendOn(devices int, light bool) (*train.Trainer, error) {
	t, err := a.BackendFor(light)
	if err != nil {
		return nil, err
	}
	t, err = t.OnDevices(devices)
	return t, cli.Usage(err)
}

// SayNetwork warns of what is odd about the network of a file, once: its notes, and features of an image that depend on
// the other images of its batch.
func (a *App) SayNetwork(path string, n *onnx.Network, on *train.Trainer) error {
	if _, said := a.warned.LoadOrStore(n, true); said {
		return nil
	}
	for _, note := range n.Notes {
		a.Warn(path + ": " + note)
	}
	mixes, err := n.Mixes(on.Backend)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if mixes {
		a.Warn(path + ": the features of an image depend on the other images of its batch, so that they are not its own: " +
			"export the network in inference, without operators that compute across the batch")
	}
	return nil
}
