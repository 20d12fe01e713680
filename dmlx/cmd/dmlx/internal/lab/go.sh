#!/bin/sh
# What GoNB calls as go; DMLX_GO is the go command. For each cell it calls "go get", which finds nothing without a proxy,
# and "go build", which is done before collecting garbage pays. A cell that only declares is compiled and not linked,
# which is most of a build: its program would do nothing but set variables, and runs if there are any.
case "$*" in
get) exit ;;
"build -o "*)
	export GOGC=off GOMEMLIMIT=1GiB
	program=$3
	rm -f "$program" # "go build" replaces no script.
	if [ "$GOOS" != js ] && grep -qx 'func main() { flag.Parse() }' main.go && ! grep -qE '^(var|func init)' main.go; then
		shift 3
		"$DMLX_GO" list -export "$@" >/dev/null && echo '#!/bin/sh' >"$program" && chmod +x "$program"
		exit
	fi
	;;
esac
exec "$DMLX_GO" "$@"
