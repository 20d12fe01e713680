//go:build !js

package durable

import "syscall"

const nonBlock = syscall.O_NONBLOCK
