"""A search by Optuna (pip install "optuna>=4.9") for what trains best, measured on held-out training classes:

    dmlx help optuna > tune.py
    python tune.py 40 --preset quick --data minicar

trains 40 trials with these flags of dmlx train. Trials are kept in tune.db: the same command continues a search that
was stopped or killed, and started several times it shares the trials among processes. A trial that does worse at a
third of the epochs than half of the others is pruned. The test classes have no part in it. Change suggest and EPOCHS.
"""
import fcntl
import json
import os
import subprocess
import sys
import warnings

import optuna

EPOCHS = [8, 24]  # Each trial is trained for the first number, and if it is not pruned for the last.
DMLX = os.environ.get("DMLX", "dmlx").split()  # Or DMLX="go run ./dmlx/cmd/dmlx".


def suggest(trial):
    """Returns the flags of a trial."""
    direction = trial.suggest_categorical("direction", ["euc", "cos", "euc-orth", "cos-orth"])
    pair = trial.suggest_categorical("pair", ["con", "euc", "lin", "lin-ms", "sig", "sig-ms"])
    triplet = trial.suggest_categorical("triplet", ["con", "cos", "cir"])
    tau = "" if triplet == "con" else f"?tau={trial.suggest_float('tau', 0.25, 16, log=True):.3g}"
    schedule = trial.suggest_categorical("schedule", ["step?at=0.6", "cosine"])
    return [f"--rule={direction}/{pair}/{triplet}{tau}", f"--set=schedule={schedule}",
            f"--lr={trial.suggest_float('lr', 0.05, 5, log=True):.3g}"]


def objective(trial):
    flags = suggest(trial)
    trial.set_user_attr("train", " ".join(flags))
    for epochs in EPOCHS:
        command = DMLX + ["train", "--json", "--held-out=4", f"--epochs={epochs}"] + flags + sys.argv[2:]
        result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        if "diverged" in result:
            raise optuna.TrialPruned(result["diverged"])
        trial.report(result["held_out_recall"]["1"], epochs)
        if epochs < EPOCHS[-1] and trial.should_prune():
            raise optuna.TrialPruned()
    return result["held_out_recall"]["1"]


warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # Heartbeats are, since 2021.
ENDED = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
with open("tune.lock", "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)  # Else two processes may create the tables at once, and one fails.
    study = optuna.create_study(
        study_name=" ".join(sys.argv[2:]), direction="maximize", load_if_exists=True,
        storage=optuna.storages.RDBStorage(  # A trial without heartbeat is tried again; its finished runs are read.
            "sqlite:///tune.db", engine_kwargs={"connect_args": {"timeout": 60}}, heartbeat_interval=5,
            heartbeat_stale_trial_callback=optuna.storages.RetryHeartbeatStaleTrialCallback()),
        sampler=optuna.samplers.TPESampler(constant_liar=True), pruner=optuna.pruners.MedianPruner())
if len(study.get_trials(states=ENDED)) < int(sys.argv[1]):
    study.optimize(objective, callbacks=[optuna.study.MaxTrialsCallback(int(sys.argv[1]), states=ENDED)])
print(f"held-out Recall@1 {study.best_value:.4f} by dmlx train", study.best_trial.user_attrs["train"], *sys.argv[2:])
