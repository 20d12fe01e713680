#!/usr/bin/env bash
# Packs what TestEvidence takes to a machine that has neither Go nor a network, and prints the commands for there.
#
#   dmlx/cmd/dmlx/internal/peer/travel.sh FOLDER [PHOTOS [PYTHON]]
#
# FOLDER gets the program and its benchmarks as one stripped and compressed binary and, if a folder of photographs is
# named, these at 128 pixels (by a PYTHON with Pillow). It takes Go, a C compiler and xz. There it takes glibc, xz, the
# files of dmlx/cmd/dmlx/internal/peer and, for a GPU, a Python that has JAX's CUDA plugin.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,9s/^# \?//p' "$0"; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
photos=${2:+$(cd "$2" && pwd)}
python=${3:-python3}
cd "$(dirname "$0")/../../../../.."

CGO_ENABLED=1 go test -c -trimpath -ldflags='-s -w' -o "$out/dmlx.test" ./dmlx/cmd/dmlx
xz -T0 -6 -f "$out/dmlx.test"

if [ -n "$photos" ]; then
  scaled=$(mktemp -d)
  trap 'rm -rf "$scaled"' EXIT
  "$python" - "$photos" "$scaled" <<'PY'
import sys
from pathlib import Path
from PIL import Image

source, out = map(Path, sys.argv[1:])
for path in sorted(source.rglob("*.jpg")):
    to = out / path.relative_to(source)
    to.parent.mkdir(parents=True, exist_ok=True)
    Image.open(path).convert("RGB").resize((128, 128), Image.Resampling.BICUBIC).save(to, quality=60, optimize=True)
PY
  tar -C "$scaled" -czf "$out/photos.tar.gz" . # Most of the headers.
fi

cat > "$out/evidence.sh" <<'THERE'
#!/usr/bin/env bash
# evidence.sh RECORDS: runs what is left of the checks, for at most nine minutes, beside the files of this folder.
# DMLX_PEER names internal/peer of a checkout (default: dmlx/cmd/dmlx/internal/peer here), PYTHON a Python.
set -euo pipefail
records=$(mkdir -p "$1" && cd "$1" && pwd)
peer=$(cd "${DMLX_PEER:-dmlx/cmd/dmlx/internal/peer}" && pwd)
cd "$(dirname "$0")"
python=${PYTHON:-$(command -v python3 || true)}
[ -e dmlx.test ] || { xz -dc dmlx.test.xz > dmlx.test.part && chmod +x dmlx.test.part && mv dmlx.test.part dmlx.test; }
more=()
[ ! -e photos.tar.gz ] || [ -d photos ] || { mkdir photos && tar -C photos -xzf photos.tar.gz; }
[ ! -d photos ] || more=(-evidence-photos "$PWD/photos")
[ -z "$python" ] || ! "$python" -c 'import torch, torchvision, safetensors' 2>/dev/null || more+=(-peer "$python")
if [ -z "${GOMLX_BACKEND:-}" ] && [ -n "$python" ]; then
  plugin=$("$python" -c 'import glob, site; print("".join(sorted(p for s in site.getsitepackages()
      for p in glob.glob(s + "/jax_plugins/xla_cuda*/xla_cuda_plugin.so"))[-1:]))')
  [ -z "$plugin" ] || export GOMLX_BACKEND="xla:$plugin"
fi
home=$PWD
cd "$peer/../.." # Where the program's tests run.
exec "$home/dmlx.test" -test.run '^TestEvidence$' -test.v -test.timeout 0 -evidence "$records" \
  -evidence-time "${EVIDENCE_TIME:-8m30s}" "${more[@]}"
THERE
chmod +x "$out/evidence.sh"
du -sm "$out"/* | sort -rn
echo "There, in a checkout, each call until nothing is left out for want of time:"
echo "  $(basename "$out")/evidence.sh RECORDS"
