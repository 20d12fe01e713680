package slurm

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// exitNotSeen is the exit code of a script that does not find the program in the store.
const exitNotSeen = 66

// exitNotSame is the exit code of a script that finds another program there.
const exitNotSame = 67

// Files in the folder of a probe.
const (
	nonceFile  = "here"
	answerFile = "there.json"
)

// probeAnswer is written by the probe on the node.
type probeAnswer struct {
	Nonce   string `json:"nonce"`
	Host    string `json:"host"`
	Backend string `json:"backend"`
	Error   string `json:"error,omitempty"`
}

// probe runs a job that checks whether a node can do the tasks of the array; see [Submit].
func (s *Submission) probe(ctx context.Context, o Options) error {
	unlock, err := s.store.Lock(ctx, "probe") // One probe at a time; and the node must find the lock taken.
	if err != nil {
		return err
	}
	defer unlock()
	probes := filepath.Join(s.store.Dir, folder, "probes")
	asked := strings.Join(slices.Concat(s.Sbatch, s.Environment, []string{s.Digest}), "\x00")
	passed := filepath.Join(probes, durable.Sum([]byte(asked))[:12])
	if _, err := os.Stat(passed); err == nil {
		return nil
	}
	dir := filepath.Join(probes, s.ID)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("the run store cannot be written: %w", err)
	}
	defer os.RemoveAll(dir)
	nonce := rand.Text()
	if err := durable.WriteFile(filepath.Join(dir, nonceFile), []byte(nonce), 0o644); err != nil {
		return fmt.Errorf("the run store cannot be written: %w", err)
	}
	args := append([]string{"--parsable", "--job-name=dmlx-" + s.ID + "-probe", "--output=/dev/null", "--no-requeue"},
		s.Sbatch...)
	text := s.script("runs", "probe", "--dir", quote(dir), "--nonce", nonce)
	id, err := submit(ctx, text, append(args, "--time=10", scriptInput)...)
	if err != nil {
		return err
	}
	id, _, _ = strings.Cut(id, ";")
	o.say("probe: job %s checks whether the nodes see the run store", id)
	answer, err := s.awaitProbe(ctx, o, id, dir, nonce)
	if err != nil {
		if ctx.Err() != nil {
			_, _ = run(context.WithoutCancel(ctx), "scancel", id) // Otherwise it ends by itself.
		}
		return err
	}
	o.say("probe: %s sees the run store and computes on backend %s", answer.Host, answer.Backend)
	raw, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	return durable.WriteFile(passed, append(raw, '\n'), 0o666)
}

// awaitProbe waits until the node answers, or the job ends without an answer.
func (s *Submission) awaitProbe(ctx context.Context, o Options, id, dir, nonce string) (*probeAnswer, error) {
	pause, ended := 200*time.Millisecond, 0
	for {
		var answer probeAnswer
		raw, err := durable.ReadBelow(dir, answerFile)
		if err == nil {
			err = durable.ParseJSON(raw, &answer)
		}
		switch {
		case err == nil && answer.Error != "":
			return nil, fmt.Errorf("nothing was submitted: on %s, %s", answer.Host, answer.Error)
		case err == nil && answer.Nonce == nonce:
			return &answer, nil
		case ended > 3: // An answer would be visible by now.
			return nil, s.unanswered(ctx, id)
		}
		job, err := run(ctx, "scontrol", "--oneliner", "show", "job", id)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		state := queueState{state: field(job, "JobState")}
		if err != nil || !state.active() {
			ended++
		} else if o.Progress != nil && !state.running() {
			reason := "the probe waits: " + strings.Replace(field(job, "Reason"), "None", "to be scheduled", 1)
			o.Progress(Status{Jobs: len(s.Tasks), Pending: len(s.Tasks), Reason: reason})
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
			pause = min(2*pause, o.poll())
		}
	}
}

// unanswered returns an error that explains a probe without an answer.
func (s *Submission) unanswered(ctx context.Context, id string) error {
	job, err := run(ctx, "scontrol", "--oneliner", "show", "job", id)
	if err != nil {
		return fmt.Errorf("nothing was submitted: the probe, job %s, ended without an answer: %w", id, err)
	}
	host, code := field(job, "NodeList"), field(job, "ExitCode")
	if code == fmt.Sprintf("%d:0", exitNotSeen) {
		return fmt.Errorf("nothing was submitted: node %s does not see the run store %s: choose one on a file system "+
			"that the nodes share, with --store", host, s.store.Dir)
	}
	if code == fmt.Sprintf("%d:0", exitNotSame) {
		return fmt.Errorf("nothing was submitted: on node %s, %s is not the program that was stored there: "+
			"check who may write to the run store", host, s.program())
	}
	return fmt.Errorf("nothing was submitted: the probe, job %s on node %s, ended without an answer in the run store %s: "+
		"Slurm says %s, exit code %s; perhaps the node cannot see or write the store, or cannot start the program",
		id, host, s.store.Dir, field(job, "JobState"), code)
}

// Probe answers a probe on the node. The command line is
//
//	dmlx runs probe --dir FOLDER --nonce TEXT
func (w Worker) Probe(dir, nonce string) error {
	answer := probeAnswer{Nonce: nonce, Host: hostname()}
	err := func() error {
		raw, err := durable.ReadBelow(dir, nonceFile)
		if err != nil {
			return err
		}
		if string(raw) != nonce {
			return fmt.Errorf("%s is not the folder of that name on the submitting machine", dir)
		}
		store, err := runs.OpenStore(filepath.Dir(filepath.Dir(filepath.Dir(dir))))
		if err != nil {
			return err
		}
		if held, err := store.Locked("probe"); err != nil {
			return err
		} else if !held {
			return errors.New("other machines do not see the locks of the run store, so that two could write one run: " +
				"mount it with locks (on NFS without nolock or local_lock)")
		}
		choice, err := w.Open()
		if err != nil {
			return err
		}
		answer.Backend = choice.Name
		return nil
	}()
	if err != nil {
		answer.Error = err.Error()
	}
	raw, fault := json.Marshal(answer)
	if fault == nil {
		fault = durable.WriteFile(filepath.Join(dir, answerFile), raw, 0o666)
	}
	return errors.Join(err, fault)
}
