#!/usr/bin/env bash
# A real Slurm on this machine, for tests: a controller and a node with daemons, ports, keys and files of its own, so that
# one that runs here already is not disturbed. Jobs of its partition urgent pre-empt those of its partition test.
#
#   slurm.sh start DIR [HIDDEN]   starts it; then SLURM_CONF=DIR/slurm.conf leads Slurm's commands to it. HIDDEN is a
#                                 folder that the node does not see.
#   slurm.sh node-die DIR         kills the node's daemon and all that it runs, as a power cut does
#   slurm.sh node-start DIR       starts the node again
#   slurm.sh hurry DIR            starts jobs at once that Slurm requeued, and lets wait for two minutes; and does what an
#                                 administrator would: gives a node back that Slurm drained
#   slurm.sh stop DIR             stops all of it, by the pid files in DIR
#
# It needs slurmctld, slurmd and munged (Debian: slurm-wlm, munge) and root, since slurmd does. DIR must be short: it
# has a socket in it.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
verb=$1
dir=$(realpath -m "$2")
conf=$dir/slurm.conf
export SLURM_CONF=$conf

# alive PIDFILE prints the process that wrote it, if it is still there.
alive() {
  local pid
  pid=$(cat "$1" 2>/dev/null) && grep -qs '^State:.[^Z]' "/proc/$pid/status" && echo "$pid"
}

# of_node prints what runs on the node: processes of jobs, which have this configuration in their environment, and the
# daemons above them.
of_node() {
  local process pid parent
  for process in $(grep -lszx "SLURM_CONF=$conf" /proc/[0-9]*/environ); do
    grep -qsz '^SLURM_JOB_ID=' "$process" || continue
    pid=${process#/proc/} pid=${pid%/environ}
    parent=$(awk '/^PPid/ {print $2}' "/proc/$pid/status" 2>/dev/null) || continue
    echo "$pid"
    [ "$(cat "/proc/$parent/comm" 2>/dev/null)" != slurmstepd ] || echo "$parent"
  done
}

node_start() {
  local hidden
  hidden=$(cat "$dir/hidden")
  if [ -n "$hidden" ]; then
    unshare -m bash -c 'mount -t tmpfs none "$1"; exec slurmd -f "$2"' - "$hidden" "$conf"
  else
    slurmd -f "$conf"
  fi
}

case $verb in
start)
  mkdir -p "$dir"/{state,spool,log}
  echo "${3:-}" > "$dir/hidden"
  host=$(hostname -s)
  memory=$(awk '/MemTotal/ {print int($2 / 1024 * 0.9)}' /proc/meminfo)
  read -r controller node < <(python3 -c '
import socket
free = [socket.socket(), socket.socket()]
for s in free: s.bind(("", 0))
print(*(s.getsockname()[1] for s in free))')
  # munge wants its folders to be no one else's to write.
  chmod 755 "$dir"
  dd if=/dev/urandom of="$dir/munge.key" bs=128 count=1 status=none
  chmod 400 "$dir/munge.key"
  munged --force --key-file="$dir/munge.key" --socket="$dir/munge" --pid-file="$dir/munged.pid" \
    --log-file="$dir/log/munged" --seed-file="$dir/munge.seed" --num-threads=2
  cat > "$conf" <<CONF
ClusterName=dmlxtest
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$controller
SlurmdPort=$node
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=2,batch_sched_delay=0,sched_min_interval=10000
JobCompType=jobcomp/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=15
SlurmctldTimeout=15
KillWait=5
MinJobAge=60
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/log/slurmctld
SlurmdLogFile=$dir/log/slurmd
NodeName=$host NodeAddr=127.0.0.1 CPUs=2 RealMemory=$memory State=UNKNOWN
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=test Nodes=$host Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=$host MaxTime=INFINITE State=UP PriorityTier=2
CONF
  slurmctld -f "$conf"
  node_start
  for _ in $(seq 100); do
    if sinfo -h -o %T 2>/dev/null | grep -q idle; then exit 0; fi
    sleep 0.2
  done
  echo "the node does not come up:" >&2
  tail -n 5 "$dir"/log/* >&2
  "$0" stop "$dir"
  exit 1
  ;;
node-start)
  node_start
  scontrol update NodeName="$(hostname -s)" State=RESUME 2>/dev/null || true # It may be back by itself.
  "$0" hurry "$dir"
  ;;
hurry)
  # A job that comes to a node again before its last trace there is gone ("Duplicate jobid") drains the node.
  if sinfo -h -o %T | grep -q drain; then
    scontrol update NodeName="$(hostname -s)" State=RESUME 2>/dev/null || true
  fi
  # Slurm holds such a job, too ("launch failed requeued held").
  squeue -h --states=PENDING -o '%A %r' | awk '/held/ { print $1 }' | sort -u | xargs -r -I{} scontrol release {} 2>/dev/null || true
  # Slurm lets a job that it requeued wait for two minutes.
  squeue -h --states=PENDING -o %A | sort -u | xargs -r -I{} scontrol update JobId={} StartTime=now 2>/dev/null || true # One may have begun meanwhile.
  ;;
node-die)
  if pid=$(alive "$dir/slurmd.pid"); then kill -9 "$pid"; fi
  of_node | sort -u | xargs -r kill -9 2>/dev/null || true
  # The controller would find it out in a minute.
  scontrol update NodeName="$(hostname -s)" State=DOWN Reason=died
  ;;
stop)
  of_node | sort -u | xargs -r kill -9 2>/dev/null || true
  for daemon in slurmctld slurmd munged; do
    if pid=$(alive "$dir/$daemon.pid"); then kill "$pid"; fi
  done
  ;;
*)
  echo "slurm.sh: $verb: want start, node-die, node-start, hurry or stop" >&2
  exit 2
  ;;
esac
