#!/usr/bin/env bash
# Packs what TestEvidence takes to a machine that has neither Go nor a network, and prints what to do there, step by
# step, as it stands in FOLDER/README.
#
#   dmlx/cmd/dmlx/internal/peer/travel.sh FOLDER [PHOTOS NETWORK.onnx [PYTHON]]
#
# FOLDER gets the program with its benchmarks, stripped and compressed, and the tests of training, the Python files beside it,
# pytorch-metric-learning and, if they are named, photographs at 128 pixels (by a PYTHON with Pillow) and the network
# that is trained on them. With the files of this checkout that is 64 MiB at most. It takes Go, a C compiler and xz.
#
# There it takes glibc (PJRT's plugins do too, so that the program is not static), tar, xz or a Python, for photographs
# a Python with Pillow and, for a GPU, one that has JAX's CUDA plugin.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,12s/^# \?//p' "$0"; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
photos=${2:+$(cd "$2" && pwd)}
network=${3:+$(realpath "$3")}
python=${4:-python3}
[ -z "$photos" ] || "$python" -c 'import PIL' 2>/dev/null ||
  { echo "$python has no Pillow, which scales the photographs: want a PYTHON that has it" >&2; exit 1; }
cd "$(dirname "$0")/../../../../.."

CGO_ENABLED=1 go test -c -trimpath -ldflags='-s -w' -o "$out/dmlx.test" ./dmlx/cmd/dmlx
CGO_ENABLED=1 go test -c -trimpath -ldflags='-s -w' -o "$out/train.test" ./dmlx/train
list=$("$out/dmlx.test" -evidence-list -test.run '^TestEvidence$' | grep ' min in all')
# One archive of both: they have most of their code in common, within reach of a dictionary.
tar -C "$out" -c dmlx.test train.test | xz --x86 --lzma2=preset=9e,lc=4,dict=256MiB > "$out/programs.tar.xz"
rm "$out/dmlx.test" "$out/train.test"
git describe --always --dirty > "$out/version"
git ls-files -z dmlx/cmd/dmlx/internal/peer dmlx/onnx/testdata/efficientnet_lite0.onnx dmlx/paper/*.toml |
  tar --null -T - -czf "$out/files.tar.gz"
"$python" -m pip download -q --no-deps --only-binary=:all: -d "$out" pytorch-metric-learning ||
  echo "without pytorch-metric-learning"
[ -z "$network" ] || xz -c --lzma2=preset=9e,lc=1,lp=2,pb=2 "$network" > "$out/network.onnx.xz"

if [ -n "$photos" ]; then
  scaled=$(mktemp -d)
  trap 'rm -rf "$scaled"' EXIT
  "$python" - "$photos" "$scaled/$(basename "$photos")" <<'PY'
import sys
from pathlib import Path
from PIL import Image

source, out = map(Path, sys.argv[1:])
for path in sorted(source.rglob("*.jpg")):
    # As near to the photograph as a JPEG file of 1.6 times its size.
    to = (out / path.relative_to(source)).with_suffix(".webp")
    to.parent.mkdir(parents=True, exist_ok=True)
    Image.open(path).convert("RGB").resize((128, 128), Image.Resampling.BICUBIC).save(to, quality=20, method=6)
PY
  tar -C "$scaled" -c . | xz -T0 -6 > "$out/photos.tar.xz"
fi

cat > "$out/evidence.sh" <<'THERE'
#!/usr/bin/env bash
# evidence.sh RECORDS [FLAGS]: runs what is left of the checks, for at most nine minutes. PYTHON names a Python
# (default: python3), WORK a folder for what is unpacked; FLAGS are the program's, as -evidence-small for a rehearsal.
# What an earlier call left in RECORDS goes on from a folder "earlier" beside this file.
set -euo pipefail
records=$(mkdir -p "$1" && cd "$1" && pwd)
shift
home=$(cd "$(dirname "$0")" && pwd)
work=${WORK:-${TMPDIR:-/tmp}/dmlx-evidence-$(id -u)}
mkdir -p "$work" && cd "$work"
[ ! -d "$home/earlier" ] || [ -e "$records/evidence.json" ] || cp -r "$home"/earlier/. "$records"
python=${PYTHON:-$(command -v python3 || true)}
unpacked() { # By xz, or by Python where there is none.
  if command -v xz >/dev/null; then xz -dc "$1"; else
    "$python" -c 'import lzma, shutil, sys; shutil.copyfileobj(lzma.open(sys.argv[1]), sys.stdout.buffer)' "$1"; fi
}
# Unpacked again if a call was ended within it, and if another program or Python came.
packed="$python $(cd "$home" && cksum version files.tar.gz ./*.xz)"
if [ "$(cat packed 2>/dev/null)" != "$packed" ]; then
  rm -rf packed dmlx.test train.test dmlx network.onnx photos
  mkdir photos
  unpacked "$home/programs.tar.xz" | tar --no-same-owner -x
  tar --no-same-owner -xzf "$home/files.tar.gz"
  if [ -e "$home/network.onnx.xz" ]; then unpacked "$home/network.onnx.xz" > network.onnx; fi
  if [ ! -e "$home/photos.tar.xz" ]; then :
  elif [ -z "$python" ] || ! "$python" -c 'import PIL' 2>/dev/null; then
    echo "without photographs: ${python:-python3} has no Pillow, which reads them; PYTHON names a Python that has it" >&2
  else
    unpacked "$home/photos.tar.xz" | tar --no-same-owner -C photos -x
    "$python" - <<'PY' || { rm -rf photos/*; packed="without photographs"; }
import concurrent.futures
from pathlib import Path
from PIL import Image


def decode(path):
    Image.open(path).save(path.with_suffix(".png"), compress_level=1)
    path.unlink()


with concurrent.futures.ThreadPoolExecutor() as pool:
    list(pool.map(decode, Path("photos").rglob("*.webp")))
PY
  fi
  echo "$packed" > packed
fi
more=("$@")
[ -z "$(ls photos)" ] || more+=(-evidence-photos "$(echo "$work"/photos/*)")
[ ! -e network.onnx ] || more+=(-evidence-network "$work/network.onnx")
[ -z "$python" ] || ! "$python" -c 'import torch, torchvision, safetensors' 2>/dev/null || more+=(-peer "$python")
for wheel in "$home"/*.whl; do [ ! -e "$wheel" ] || export PYTHONPATH=$wheel${PYTHONPATH:+:$PYTHONPATH}; done
if [ -z "${GOMLX_BACKEND:-}" ] && [ -n "$python" ]; then
  plugin=$("$python" -c 'import glob, site; print("".join(sorted(p for s in site.getsitepackages()
      for p in glob.glob(s + "/jax_plugins/xla_cuda*/xla_cuda_plugin.so"))[-1:]))')
  [ -z "$plugin" ] || export GOMLX_BACKEND="xla:$plugin"
fi
if [ -n "$python" ] && [[ ${GOMLX_BACKEND:-} == *cuda* ]]; then
  # XLA needs ptxas and libdevice. It finds those of /usr/local/cuda and beside JAX's plugin; JAX's wheels need not have
  # them, but Triton, which comes with PyTorch, has.
  toolkit=$("$python" - "$work/cuda" <<'PY'
import glob
import os
import shutil
import site
import sys
from pathlib import Path

device, ptxas = "nvvm/libdevice/libdevice.10.bc", "bin/ptxas"
nvcc, made = shutil.which("nvcc"), Path(sys.argv[1])
roots = [os.environ.get("CUDA_HOME", ""), str(Path(os.path.realpath(nvcc)).parents[1]) if nvcc else ""]
roots += sorted(glob.glob("/usr/local/cuda*"))
for packages in site.getsitepackages():
    roots += [f"{packages}/nvidia/cuda_nvcc", *glob.glob(f"{packages}/nvidia/cu[0-9]*")]
    triton = Path(packages, "triton/backends/nvidia")
    if (triton / ptxas).exists():
        for file, of in ((device, triton / "lib/libdevice.10.bc"), (ptxas, triton / ptxas)):
            (made / file).parent.mkdir(parents=True, exist_ok=True)
            (made / file).unlink(missing_ok=True)
            (made / file).symlink_to(of)
found = [r for r in [*roots, str(made)] if r and all(Path(r, f).exists() for f in (device, ptxas))]
print(found[0] if found else "")
PY
  )
  [ -z "$toolkit" ] || export XLA_FLAGS="${XLA_FLAGS:-} --xla_gpu_cuda_data_dir=$toolkit"
  echo "GPU code by ${toolkit:-no ptxas that was found}"
  for libraries in "$(dirname "${GOMLX_BACKEND#xla:}")"/../../nvidia/*/lib; do # JAX loads them in Python.
    [ ! -d "$libraries" ] || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$libraries"
  done
fi
export HOME=${HOME:-$work} DMLX_CACHE=$work/cache GOMLX_NO_AUTO_INSTALL=1 DMLX_EVIDENCE_VERSION=$(cat "$home/version")
cd dmlx/cmd/dmlx # Where the program's tests run.
"$work/dmlx.test" -test.run '^TestEvidence$' -test.v -test.timeout 0 -evidence "$records" -evidence-store "$work/runs" \
  -evidence-time "${EVIDENCE_TIME:-8m30s}" "${more[@]}"
THERE
chmod +x "$out/evidence.sh"
du -sk "$out"/* | sort -rn
tracked=$(git ls-files -z | xargs -0 stat -c %s | awk '{ kib += $1 / 1024 } END { print int(kib) }')
total=$(($(du -sk "$out" | cut -f1) + tracked))
echo "$((total / 1024)) MiB, $((tracked / 1024)) MiB of them this checkout's"
[ "$total" -le 65536 ] || { echo "more than 64 MiB: want PHOTOS of fewer classes, or a smaller NETWORK" >&2; exit 1; }
cat > "$out/README" <<PAGE
Checks of a GPU by dmlx $(cat "$out/version"). $(basename "$out")/ is what travels; RECORDS is any new folder there.

1. There, for nine minutes:      $(basename "$out")/evidence.sh RECORDS
   See "backend: passed" after some 10 seconds, and "passed" or a reason after each check of the list below. Every record
   is in RECORDS/evidence.json at once: a call may be ended at any time.
2. Again until nothing is "not run", also after a failure. With less time left:
                                 EVIDENCE_TIME=4m $(basename "$out")/evidence.sh RECORDS
   Where RECORDS does not stay from call to call, put what came back into $(basename "$out")/earlier before the next one.
3. Back here: evidence.json goes into dmlx/cmd/dmlx/internal/peer/testdata, and table2*.json, results of runs, into
   dmlx/runs/bundled. Then
     go test ./dmlx/cmd/dmlx -run EvidencePage -regen
   writes the table of environment.md from it; look at the diff, and commit all of them.

What it may say, and what to do:
  GOMLX_BACKEND is not set       python3 has no JAX with a CUDA plugin: PYTHON=/path/to/python evidence.sh …, or
                                 GOMLX_BACKEND=xla:/path/to/xla_cuda_plugin.so evidence.sh …
  backend: failed                read its output; the plugin of another JAX may fit: GOMLX_BACKEND, as above
  another check: failed          go on: its record has its output, and it is tried again behind all others
  timed out, not run             the next call runs it
  left out                       the reason says what is missing there: a GPU, PyTorch (no -peer), photographs
  not measured: …                what PyTorch could not do, as for lack of memory; the rest of the check counts
  another run writes records     an earlier call still runs: end it or wait
  want another folder            the machine has another GPU or plugin than the records: call it with a new RECORDS
  want room and the right        RECORDS is full or read-only: the record that follows is in no file, all others are
  No space left on device        WORK=/a/larger/folder evidence.sh …: it takes some 400 MB with photographs
  holds no records               evidence.json is damaged: put back a copy, or move it away
To rehearse without a GPU, a minute: GOMLX_BACKEND=xla:cpu $(basename "$out")/evidence.sh RECORDS -evidence-small

What is run in which order, with the time that an H100 should take; none of it is measured:
$list
PAGE
cat "$out/README"
