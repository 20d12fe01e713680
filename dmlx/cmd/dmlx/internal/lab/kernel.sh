#!/bin/sh
# Starts GoNB with its tools on PATH, and ends it and all that it has started when its Jupyter is gone, however that ended.
# Arguments: the folders of GoNB and goimports and of go, as in PATH, since a Jupyter that no shell has started has no go
# on its own; that of gopls; that of the module; Jupyter's connection file; and a file that is there when "dmlx lab" has
# set up what cells need, which a kernel of its first start waits for. It says how cells are compiled.
PATH=$1:$PATH
[ -n "$DMLX_HEADLESS" ] || PATH=$2:$PATH # Without an editor nobody completes code.
DMLX_GO=$(command -v go) PATH=${0%/*}/bin:$PATH
export DMLX_GO PATH
kernel=$$ jupyter=${JPY_PARENT_PID:-$PPID}
(
	trap '' TERM INT
	while kill -0 "$jupyter" && kill -0 "$kernel"; do sleep 1; done
	kill -TERM "$kernel"
	kill -TERM "-$kernel" && sleep 2 && kill -KILL "-$kernel"
) </dev/null >/dev/null 2>&1 &
until [ -e "$5" ]; do sleep 0.2; done
. "$5"
exec gonb "-go_work=$3" -raw_error -logtostderr=false -log_file=/dev/null -stderrthreshold=FATAL --kernel "$4"
