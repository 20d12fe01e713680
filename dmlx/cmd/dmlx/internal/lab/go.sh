#!/bin/sh
# What GoNB calls as go; DMLX_GO is the go command. For each cell it calls "go get", which finds nothing without a
# proxy, and "go build", which is done before collecting garbage pays. A cell that only declares is compiled and not
# linked: its program would do nothing but set variables, and runs if there are any.
#
# "go build" takes a third of its time to find out that 300 packages are as they were. So the compiler and the linker are
# called as it has called them for an earlier cell, while go.mod, the settings and all files beside sources that are not
# in the module cache stay the same. Where that fails, as for a cell with an error, "go build" is called.
case "$*" in
get) exit ;;
"build -o "*)
	export GOGC=off GOMEMLIMIT=1GiB GOTMPDIR="$PWD"
	program=$3 linked=$3
	shift 3
	rm -f "$program" # "go build" replaces no script.
	if [ "$GOOS" != js ] && grep -qx 'func main() { flag.Parse() }' main.go && ! grep -qE '^(var|func init)' main.go; then
		linked=
	fi
	unlinked() { [ -n "$linked" ] || { printf '#!/bin/sh\n' >"$program" && chmod +x "$program"; }; }
	IFS='
'
	sums() {
		env | grep -E '^C?GO[^N]' | sort
		cksum go.mod go.work $(sort -u watched) 2>/dev/null
		echo "$@"
	}
	save=$linked
	if [ -s steps ] && [ "$(sums "$@")" = "$(cat sums)" ]; then
		if errors=$(sh -e steps "$linked" 2>&1); then
			unlinked
			exit
		fi
		case $errors in
		*"could not import"*) ;; # A package that no earlier cell had.
		./main.go:*) save= ;;
		esac
	else
		rm -f watched packages
	fi
	if [ -n "$save" ]; then
		rm -rf go-build* steps
		"$DMLX_GO" list -deps -f '{{if not .Standard}}{{.Dir}}/*{{range .EmbedFiles}}
{{$.Dir}}/{{.}}{{end}}{{with .Module}}
{{.GoMod}}{{end}}{{end}}' "$@" 2>/dev/null | grep -vF -e "$PWD/" -e "${GOMODCACHE:-$PWD}/" >>watched
		sums "$@" >sums
		flags=-s # XLA is a cgo package. By default gcc links those, which takes half of the time of a cell that trains.
		[ "$(uname)" != Linux ] || flags="-s -linkmode=internal"
		if "$DMLX_GO" build "-ldflags=$flags" -x -work -o "$program" "$@" 2>log; then
			grep -hs ^packagefile go-build*/b001/importcfg.link packages | sort -u >all
			mv all packages
			grep -hsv ^packagefile go-build*/b001/importcfg.link | cat packages - >linker
			sed -n '/ -embedcfg /d; /^WORK=/p; /\.\/main\.go$/s/ -importcfg [^ ]*/ -importcfg packages/p
				s,/link -o [^ ]* -importcfg [^ ]*,/link -o "$1" -importcfg linker,; s/.*\/link -o "/[ -z "$1" ] || &/p' log >steps
			[ "$(wc -l <steps)" -eq 3 ] || rm steps
			exit 0
		fi
	fi
	if [ -z "$linked" ]; then
		"$DMLX_GO" list -export "$@" >/dev/null && unlinked
		exit
	fi
	set -- build -o "$program" "$@"
	;;
esac
exec "$DMLX_GO" "$@"
