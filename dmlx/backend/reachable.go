//go:build !js

package backend

import (
	"net"
	"time"
)

// reachable tells within seconds whether the host of the plugins answers. Without a network go-xla waits for minutes.
func reachable() bool {
	conn, err := net.DialTimeout("tcp", "github.com:443", 2*time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
