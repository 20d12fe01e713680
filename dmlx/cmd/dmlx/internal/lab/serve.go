package lab

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
)

// Variables for the tests.
var (
	stopWait  = 15 * time.Second // Time for a process to end before it is killed.
	startWait = time.Minute      // Time for JupyterLab to answer.
)

const poll = 100 * time.Millisecond // Of a lock and of JupyterLab's start.

// FreePort returns a port of localhost to serve on: the given one if it is free, or any free one for 0.
func FreePort(port int) (int, error) {
	if port < 0 || port > 65535 {
		return 0, errs.Invalid(fmt.Errorf("port %d is not between 1 and 65535", port))
	}
	ln, err := net.Listen("tcp", address(port))
	if err != nil {
		var system *os.SyscallError
		if errors.As(err, &system) {
			err = system.Err
		}
		return 0, fmt.Errorf("port %d cannot be used: %w; choose another, or leave out --port", port, err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port, nil
}

// address returns the address of a port on localhost.
func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// logPath returns the log of the JupyterLab on a port, since several may share a cache.
func (l *Lab) logPath(port int) string { return l.dir(fmt.Sprintf("jupyter-%d.log", port)) }

// Serve runs JupyterLab on a port of localhost until the context ends, and then stops it and its kernels. open is the
// file or folder that it shows, below the notebooks' folder. When JupyterLab answers, ready is called with the address,
// which has the token. Call Setup first.
func (l *Lab) Serve(ctx context.Context, port int, open string, ready func(url string)) error {
	token := rand.Text()
	logPath := l.logPath(port)
	// Nobody else may read the log, since it has the token. An old log may have other permissions.
	if err := os.Remove(logPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	logFile, err := os.OpenFile(logPath, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer logFile.Close()

	shown := "/lab/tree/" + (&url.URL{Path: open}).EscapedPath()
	run, stop := context.WithCancel(ctx) // Its end stops JupyterLab, if necessary by force.
	defer stop()
	cmd := exec.CommandContext(run, l.python(), "-m", "jupyterlab", fmt.Sprintf("--ServerApp.open_browser=%t", l.Browser),
		"--LabApp.default_url="+shown,
		"--ServerApp.ip=127.0.0.1", "--ServerApp.port="+strconv.Itoa(port), "--ServerApp.port_retries=0",
		"--ServerApp.root_dir="+l.folder(), "--ServerApp.preferred_dir="+filepath.Join(l.folder(), path.Dir(open)),
		"--LabApp.extension_manager=readonly",
		"--MultiKernelManager.default_kernel_name="+Kernel, "--KernelSpecManager.allowed_kernelspecs="+Kernel,
		"--KernelSpecManager.ensure_native_kernel=False", "--LanguageServerManager.autodetect=False",
		"--ServerApp.allow_root=True", // The token protects it; a container's user is often root.
	)
	cmd.Dir = l.folder()
	cmd.Env = append(l.environ(false), "JUPYTER_TOKEN="+token) // Not an argument, which other users can read.
	cmd.Stdout, cmd.Stderr = logFile, logFile
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	answers := make(chan error, 1)
	go func() { answers <- waitFor(ctx, address(port), "/api/status?token="+token) }()
	for {
		select {
		case err := <-answers:
			if err != nil && ctx.Err() == nil {
				stop()
				<-ended
				return fmt.Errorf("JupyterLab does not answer: %w; its log is %s", err, logPath)
			}
			if err == nil {
				ready("http://" + address(port) + shown + "?token=" + token)
			}
			answers = nil
		case err := <-ended:
			if ctx.Err() != nil {
				return ctx.Err()
			}
			log, _ := os.ReadFile(logPath)
			why := text.LastLine(string(log), errors.Join(err, errors.New("exit status 0")))
			return fmt.Errorf("JupyterLab ended: %s; its log is %s", why, logPath)
		}
	}
}

// waitFor waits until a server of this machine answers a path with status 200.
func waitFor(ctx context.Context, address, path string) error {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	for {
		err := get(ctx, address, path)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(poll):
		}
	}
}

// get asks a server for a path. Package net/http would do it, but it and TLS would be a third of what is compiled when
// the notebooks are opened for the first time.
func get(ctx context.Context, address, path string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n", path, address); err != nil {
		return err
	}
	status, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	if f := strings.Fields(status); len(f) < 2 || f[1] != "200" {
		return fmt.Errorf("it says %q", strings.TrimSpace(status))
	}
	return nil
}
