package train

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
)

// AllDevices stands for all devices of a backend in [Trainer.OnDevices].
const AllDevices = -1

// OnDevices returns a trainer that divides the rows of each batch evenly among the first n devices of the backend, and
// the images of an evaluation as well. Weights are replicated. Triplets, pairs, proxies, miners and batch statistics
// are those of the whole batch, as on one device: n changes the rounding and nothing else. n = 0 returns t itself. The
// trainers share their compiled steps. The error tells how many devices there are if they are too few.
func (t *Trainer) OnDevices(n int) (*Trainer, error) {
	if n == 0 {
		return t, nil // Also a nil trainer, of a job that only reads the store.
	}
	c, has := t.Choice, t.Backend.NumDevices()
	switch {
	case n == AllDevices:
		n = has
	case n < 0:
		return nil, fmt.Errorf("%d devices: want a positive number, or all", n)
	case n > has && has == 1:
		return nil, fmt.Errorf("%d devices: the backend %s has one; leave the number out%s", n, c.Name, virtualDevices(c, n))
	case n > has:
		return nil, fmt.Errorf("%d devices: the backend %s has %d; use at most %d, or all%s", n, c.Name, has, has,
			virtualDevices(c, n))
	}
	other := *t
	other.devices = n
	return &other, nil
}

// DeviceCount returns the number of devices that the rows of a batch are divided among.
func (t *Trainer) DeviceCount() int { return max(t.devices, 1) }

// virtualDevices says how a CPU counts as several devices.
func virtualDevices(c *backend.Choice, n int) string {
	if c.Name != "xla:cpu" {
		return ""
	}
	return fmt.Sprintf(" (for a trial XLA_FLAGS=--xla_force_host_platform_device_count=%d divides the CPU into %d)", n, n)
}

// FitsDevices returns an error if the batches of a config cannot be divided evenly among n devices, with the numbers
// of devices that would fit.
func (c Config) FitsDevices(n int) error {
	what, rows := "batches", c.Batch()
	if c.MicroBatch > 0 {
		what, rows = "micro-batches", c.MicroBatch
	}
	if n <= 1 || rows%n == 0 {
		return nil
	}
	var fit []string
	for d := 1; d <= min(n, rows); d++ {
		if rows%d == 0 {
			fit = append(fit, fmt.Sprint(d))
		}
	}
	list := strings.Join(fit, ", ")
	if last := len(fit) - 1; last > 0 {
		list = strings.Join(fit[:last], ", ") + " or " + fit[last]
	}
	return errs.Invalid(fmt.Errorf("%s of %d images cannot be divided evenly among %d devices: use %s devices, or %s "+
		"of a multiple of %d", what, rows, n, list, what, n))
}

// withDevices returns Devices of a training that goes on with n devices.
func (c *Checkpoint) withDevices(n int) []int {
	devices := c.Devices
	if len(devices) == 0 {
		if n == 1 {
			return nil
		}
		if c.Epoch > 0 {
			devices = []int{1}
		}
	}
	if len(devices) == 0 || devices[len(devices)-1] != n {
		devices = append(slices.Clip(devices), n)
	}
	return devices
}
