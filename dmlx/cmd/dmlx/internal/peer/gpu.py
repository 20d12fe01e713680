"""Compiles training steps of the ResNets for a GPU that need not be there, and prints what they would take of it.

    pip install "jax[cuda12]==0.10.2" flax==0.12.8 torch torchvision timm peft onnx onnxscript
    python dmlx/cmd/dmlx/internal/peer/gpu.py [--table one|files|several]

What it printed is kept in testdata/gpu.txt: tables of steps on one GPU, of steps of networks from ONNX files, and of a large batch on several
GPUs. It takes Go, a C compiler, and go-xla's CPU plugin.

XLA compiles for a GPU by its description (TARGET), so that all but the times can be known without one: that the step
compiles, its memory, how many kernels it has, and how many bytes they read and write, which is what such networks
wait for on a GPU. The step is the one of `dmlx train`: a plugin that calls itself CUDA hands dmlx on to the CPU's and
keeps the programs that it is to compile. Beside it, as much is said of the same network in flax; and of PyTorch's
eager kernels the bytes, at least: each operand once, though batch normalization reads its input twice and
convolutions' gradients theirs. PyTorch's memory is that of tensors, without what its allocator keeps in reserve. Its attention is that
of a GPU: flash attention in bf16, the memory-efficient one in float32.

Memory is that of a GPU, of arguments, results and what lies between, without the workspace that cuDNN's algorithms take, which
only a device tells. Algorithms, and how kernels are divided, are not those that XLA would find by trying them on a
device.
"""

import argparse
import collections
import datetime
import glob
import importlib.metadata
import json
import os
import re
import subprocess
import tempfile
from functools import partial
from pathlib import Path

import jax
from PIL import Image
from small import exported, revision

GPU = "NVIDIA H100 80GB HBM3"
TARGET = f"""
    gpu_device_info {{
      threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152 shared_memory_per_core: 233472
      threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128
      block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
      memory_bandwidth: 3352320000000 l2_cache_size: 52428800 clock_rate_ghz: 1.98 device_memory_size: 84929347584
      shared_memory_per_block_optin: 232448 cuda_compute_capability {{ major: 9 }}
      registers_per_core_limit: 65536 registers_per_block_limit: 65536
    }}
    platform_name: "CUDA" dnn_version_info {{ major: 9 minor: 10 }} runtime_version {{ major: 12 minor: 9 }}
    device_description_str: "{GPU}" """
# Network, classes and images of a batch, and other settings of `dmlx train`, see as_settings. There are two micro-batches instead of eight:
# one is measured.
STEPS = [
    ("resnet18", "8x16", []),
    ("resnet18", "8x16", ["--precision", "bf16"]),
    ("resnet50", "8x16", []),
    ("resnet50", "8x16", ["--precision", "bf16"]),
    ("resnet50", "8x16", ["--precision", "bf16", "--recompute"]),
    ("resnet50", "32x16", ["--precision", "bf16"]),
    ("resnet50", "32x16", ["--precision", "bf16", "--recompute"]),
    ("resnet50", "8x16", ["--precision", "bf16", "--micro-batch", "64"]),
]
# The same for networks of timm, from ONNX files.
EFFICIENTNET, VIT, LAST = "efficientnet_lite0", "vit_small_patch16_224", ["--train-only", r"blocks\.(10|11)\.|^norm"]
FILES = [
    (VIT, "8x16", []),
    (VIT, "8x16", ["--precision", "bf16"]),
    (VIT, "8x16", ["--precision", "bf16", "--lora", r"attn\.qkv\.weight:8"]),
    (VIT, "8x16", ["--precision", "bf16", *LAST]),
    (VIT, "8x16", [*LAST, "--keep", "8GB"]),  # In float32 the frozen part is a program of its own.
    (EFFICIENTNET, "8x16", []),
    (EFFICIENTNET, "8x16", ["--precision", "bf16"]),
    ("vit_base_patch16_224", "8x16", ["--precision", "bf16"]),
]
# A batch of 4,096 images on several GPUs: classes and images, numbers of GPUs, network and other flags.
LARGE_BATCH = "64x64"
GPUS = (1, 2, 4, 8)
LARGE_STEPS = [
    ("resnet50", ["--precision", "bf16"]),
    ("resnet50", ["--precision", "bf16", "--recompute"]),
]
LARGE = 100_000  # Bytes of a program that has a network in it.
PLUGIN = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "pjrt_c_api.h"

static PJRT_Api api;
static const PJRT_Api *cpu;
static int kept;

static PJRT_Error *compile(PJRT_Client_Compile_Args *a) {
  if (a->program->code_size > atol(getenv("RECORD_LARGE"))) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%d.mlir", getenv("RECORD_DIR"), kept++);
    FILE *f = fopen(path, "w");
    fwrite(a->program->code, 1, a->program->code_size, f);
    fclose(f);
    if (kept == atoi(getenv("RECORD_COUNT"))) exit(0);
  }
  return cpu->PJRT_Client_Compile(a);
}

static PJRT_Error *create(PJRT_Client_Create_Args *a) {
  a->num_options = 0; /* A GPU's. */
  return cpu->PJRT_Client_Create(a);
}

const PJRT_Api *GetPjrtApi(void) {
  void *lib = dlopen(getenv("RECORD_CPU"), RTLD_NOW | RTLD_LOCAL);
  if (!lib) { fprintf(stderr, "%s\n", dlerror()); exit(1); }
  cpu = ((const PJRT_Api *(*)(void))dlsym(lib, "GetPjrtApi"))();
  memcpy(&api, cpu, cpu->struct_size < sizeof api ? cpu->struct_size : sizeof api);
  api.PJRT_Client_Compile = compile;
  api.PJRT_Client_Create = create;
  return &api;
}
"""


def as_settings(flags):
    """Flags of STEPS as dmlx takes them: keys of a preset by --set."""
    out = iter(flags)
    for f in out:
        if f == "--recompute":
            yield from ("--set", "recompute")
        elif f in ("--precision", "--lora", "--train-only"):
            yield from ("--set", f"{f[2:].replace('-', '_')}={next(out)}")
        else:
            yield f


def output(*command):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


class Recorder:
    """The programs that dmlx would have a GPU compile."""

    def __init__(self, work):
        self.work, self.dmlx = Path(work), f"{work}/dmlx"
        output("go", "build", "-o", self.dmlx, "./dmlx/cmd/dmlx")
        plugins = [p for p in json.loads(output(self.dmlx, "doctor", "--json"))["pjrt_plugins"] if "_cpu_" in p]
        if not plugins:
            raise SystemExit("there is no plugin for the CPU: run `go run ./dmlx/cmd/dmlx doctor`, which fetches it")
        self.cpu = os.path.realpath(plugins[-1])
        (self.work / "plugin.c").write_text(PLUGIN)
        header = output("go", "list", "-m", "-f", "{{.Dir}}", "github.com/gomlx/go-xla") + "/pjrt"
        self.plugin = f"{work}/pjrt_c_api_cuda_plugin.so"
        output("cc", "-shared", "-fPIC", "-I", header, "-o", self.plugin, f"{work}/plugin.c", "-ldl")

    def data(self, batch):
        """A folder of as many images as a batch has, since those that come with the program are fewer, or many more."""
        classes, images = map(int, batch.split("x"))
        folder = self.work / f"data{batch}"
        for c in range(0 if folder.exists() else 2 * classes):  # Half of them are the test set.
            (folder / f"{c:03}").mkdir(parents=True)
            for i in range(images):
                Image.new("RGB", (8, 8), (c, i, 0)).save(folder / f"{c:03}/{i:03}.png")
        return folder

    def network(self, name):
        """The ONNX file of a network of timm with random weights."""
        import timm

        path = self.work / f"{name}.onnx"
        return path if path.exists() else exported(self.dmlx, timm.create_model(name, num_classes=0), path, 224, [0.5] * 3, [0.5] * 3)

    def programs(self, arch, batch, flags, data="minicar", gpus=1):
        """Those of a step that have a network in them; the last one has its gradient."""
        with tempfile.TemporaryDirectory(dir=self.work) as out:
            env = dict(os.environ, GOMLX_BACKEND=f"xla:{self.plugin}", GOPJR_CUDA_CHECKS="0",
                       RECORD_CPU=self.cpu, RECORD_DIR=out)
            two = "--micro-batch" in flags or "--keep" in flags  # The second one is the step's.
            env |= {"RECORD_LARGE": str(LARGE), "RECORD_COUNT": "2" if two else "1"}
            env |= {"XLA_FLAGS": f"--xla_force_host_platform_device_count={gpus}", "DMLX_CACHE": f"{self.work}/cache"}
            flags = flags + ["--devices", str(gpus)]
            command = [self.dmlx, "train", "--data", str(data), "--rule", "ours", "--arch", str(arch)]
            command += ["--set", "start=random"] if str(arch).endswith(".onnx") else ["--weights", "random"]
            command += ["--set", "size=224", "--batch", batch, "--store", f"{out}/store", *as_settings(flags)]
            done = subprocess.run(command, env=env, text=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
            if done.returncode:
                raise SystemExit(f"{' '.join(command)}: {done.stderr}")
            return [Path(p).read_text() for p in sorted(glob.glob(f"{out}/*.mlir"))]


def topology_of(gpus=1):
    from jax.experimental import topologies

    return topologies.get_topology_desc("gpus", "cuda", topology=f"1x1x{gpus}", target_config=TARGET)


def compile_for(topology, program):
    import numpy as np
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jaxlib.mlir import ir

    with mlir.make_ir_context():
        module, options = ir.Module.parse(program), xla_client.CompileOptions()
        if (gpus := len(topology.devices)) > 1:  # As go-xla asks for.
            options.num_partitions = gpus
            build = options.executable_build_options
            build.num_partitions, build.use_spmd_partitioning, build.use_shardy_partitioner = gpus, True, True
            build.device_assignment = xla_client.DeviceAssignment.create(np.arange(gpus).reshape(1, gpus))
        return topology.devices[0].client.compile(module, xla_client.DeviceList(tuple(topology.devices)), options)


def memory_of(executable):
    """GB of memory that a compiled program takes."""
    m = executable.get_compiled_memory_stats()
    memory = m.argument_size_in_bytes + m.output_size_in_bytes + m.temp_size_in_bytes - m.alias_size_in_bytes
    return memory / 1e9


def taken(executable):
    """GB of memory, GB that kernels read and write, and the number of kernels of a compiled program."""
    return (memory_of(executable), *traffic(executable.hlo_modules()[0].to_string()))


def exchanged(executable):
    """GB that the collectives of a compiled program return on each device, and how many there are."""
    collective = r" = (.*?) (?:all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute)(?:-start)?\("
    found = re.findall(collective, executable.hlo_modules()[0].to_string())
    return sum(map(bytes_of, found)) / 1e9, len(found)


SIZES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "u64": 8, "f64": 8}


def bytes_of(shape):
    total = 0
    for dtype, dims in re.findall(r"\b([a-z]+\d*)\[([\d,]*)\]", shape):
        size = SIZES[dtype]
        for d in filter(None, dims.split(",")):
            size *= int(d)
        total += size
    return total


def traffic(text):
    """GB that the kernels of an HLO module read and write, each operand and result once, and how many kernels there are.

    Of an operand that a kernel only slices, converted or not, the slices count.
    """
    line = re.compile(r"\s*(?:ROOT )?%?([\w.\-]+) = (\((?:[^()]|\([^()]*\))*\)|\S+) ([\w\-]+)\(([^)]*)\)(.*)")
    computations, name, entry = {}, None, None
    for l in text.splitlines():
        if start := re.match(r"(ENTRY )?%?([\w.\-]+) \(.*\{\s*$", l):
            name = start[2]
            computations[name] = []
            entry = name if start[1] else entry
        elif name and (found := line.match(l)):
            result, shape, op, inside, rest = found.groups()
            computations[name].append((result, shape, op, re.findall(r"%([\w.\-]+)", inside), inside, rest))

    def reads(computation):
        shapes = {r: s for r, s, *_ in computations[computation]}
        uses, out = collections.defaultdict(list), {}
        for r, s, op, operands, *_ in computations[computation]:
            for o in operands:
                uses[o].append((op, r, s))

        def read(r):
            total = 0
            for op, user, shape in uses[r]:
                if op in ("bitcast", "convert"):
                    total += read(user) * bytes_of(shapes[r]) // bytes_of(shape)
                elif op in ("slice", "dynamic-slice"):
                    total += bytes_of(shape)
                else:
                    return bytes_of(shapes[r])
            return min(total, bytes_of(shapes[r]))

        for r, _, op, _, inside, _ in computations[computation]:
            if op == "parameter":
                out[int(inside)] = read(r)
        return out

    shapes = {r: s for r, s, *_ in computations[entry]}
    total = kernels = 0
    for _, shape, op, operands, _, rest in computations[entry]:
        if op in ("parameter", "get-tuple-element", "tuple", "bitcast", "constant"):
            continue
        called = re.search(r"calls=%?([\w.\-]+)", rest)
        if op == "fusion":
            of = reads(called[1])
            total += sum(of[i] for i in range(len(operands)))
        else:
            total += bytes_of(shape) if op == "slice" else sum(bytes_of(shapes[o]) for o in operands)
        total, kernels = total + bytes_of(shape), kernels + 1
    return total / 1e9, kernels


def in_flax(topology, arch, batch, bf16):
    """A step of the same network in flax, by a loss over all pairs."""
    import jax.numpy as jnp
    import numpy as np
    from flax import linen as nn
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    dtype = jnp.bfloat16 if bf16 else jnp.float32
    conv = partial(nn.Conv, use_bias=False, dtype=dtype)
    norm = partial(nn.BatchNorm, use_running_average=False, momentum=0.9, epsilon=1e-5, dtype=dtype)

    class Block(nn.Module):
        width: int
        stride: int

        @nn.compact
        def __call__(self, x):
            w, s = self.width, (self.stride, self.stride)
            if arch == "resnet50":
                y = nn.relu(norm()(conv(w, (1, 1))(x)))
                y = nn.relu(norm()(conv(w, (3, 3), s, padding=1)(y)))
                y = norm()(conv(4 * w, (1, 1))(y))
            else:
                y = nn.relu(norm()(conv(w, (3, 3), s, padding=1)(x)))
                y = norm()(conv(w, (3, 3), padding=1)(y))
            if x.shape != y.shape:
                x = norm()(conv(y.shape[-1], (1, 1), s)(x))
            return nn.relu(x + y)

    class Network(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(norm()(conv(64, (7, 7), (2, 2), padding=3)(x)))
            x = nn.max_pool(x, (3, 3), (2, 2), ((1, 1), (1, 1)))
            for stage, blocks in enumerate((3, 4, 6, 3) if arch == "resnet50" else (2, 2, 2, 2)):
                for i in range(blocks):
                    x = Block(64 << stage, 2 if stage and not i else 1)(x)
            return nn.Dense(64)(jnp.mean(x.astype(jnp.float32), (1, 2)))

    net = Network()

    def step(weights, averages, pixels, labels):
        def loss(weights):
            x = (pixels.astype(jnp.float32) / 255 - 0.5).astype(dtype)
            e, moved = net.apply({"params": weights, "batch_stats": averages}, x, mutable=["batch_stats"])
            e = e / jnp.linalg.norm(e, axis=1, keepdims=True)
            s = e @ e.T
            return jnp.sum(jnp.where(labels[:, None] == labels, -s, jnp.maximum(s, 0) ** 2)), moved["batch_stats"]

        gradients, averages = jax.grad(loss, has_aux=True)(weights)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients), averages

    place = NamedSharding(Mesh(np.array(topology.devices).reshape(1), ("x",)), PartitionSpec())
    images = jax.ShapeDtypeStruct((batch, 224, 224, 3), jnp.uint8)
    start = jax.eval_shape(lambda: net.init(jax.random.key(0), jnp.zeros(images.shape)))
    inputs = (start["params"], start["batch_stats"], images, jax.ShapeDtypeStruct((batch,), jnp.int32))
    inputs = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=place), inputs)
    return jax.jit(step).lower(*inputs).compile().runtime_executable()


def in_pytorch(arch, batch, flags):
    """GB that a step of torchvision's or timm's network holds in eager PyTorch, and that its kernels read and write, at least."""
    import re
    import weakref
    from unittest import mock

    import timm
    import torch
    import torchvision
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_flatten

    class Count(TorchDispatchMode):
        bytes = held = most = 0
        storages = weakref.WeakKeyDictionary()

        def free(self, size):
            self.held -= size

        def hold(self, storage):
            if storage not in self.storages:
                self.storages[storage] = weakref.finalize(storage, self.free, storage.nbytes())
                self.held += storage.nbytes()
                self.most = max(self.most, self.held)

        def __torch_dispatch__(self, f, types, args=(), kwargs=None):
            out = f(*args, **(kwargs or {}))
            tensors = [t for t in tree_flatten((args, kwargs, out))[0] if isinstance(t, torch.Tensor)]
            if not f.is_view and "detach" not in str(f) and "empty" not in str(f):
                self.bytes += sum(t.numel() * t.element_size() for t in tensors)
            for t in tensors:
                self.hold(t.untyped_storage())
            return out

    def attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False):
        """The kernels that a GPU takes; a description of tensors alone would get those of a CPU, which write all pairs."""
        if q.dtype == torch.bfloat16:
            return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, dropout_p, is_causal)[0]
        return torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, attn_mask, True, dropout_p, is_causal)[0]

    with torch.device("meta"):
        net = torchvision.models.get_model(arch, num_classes=64) if "resnet" in arch else timm.create_model(arch, num_classes=64)
        if "--lora" in flags:
            import peft

            at, rank = flags[flags.index("--lora") + 1].split(":")
            net = peft.get_peft_model(net, peft.LoraConfig(r=int(rank), target_modules=".*" + at.removesuffix(r"\.weight"), modules_to_save=["head"]))
        if "--train-only" in flags:
            for name, p in net.named_parameters():
                p.requires_grad_(bool(re.search(flags[flags.index("--train-only") + 1], name) or name.startswith("head")))
        net = net.to(memory_format=torch.channels_last)
        x = torch.empty(batch, 3, 224, 224).contiguous(memory_format=torch.channels_last)
        if "bf16" in flags:  # Autocast's types, but for the small copies of weights that it makes.
            net, x = net.to(torch.bfloat16), x.to(torch.bfloat16)
    with mock.patch("torch.nn.functional.scaled_dot_product_attention", attention), Count() as count:
        net(x).sum().backward()
        for p in net.parameters():
            if p.grad is not None:
                p.data.add_(p.grad, alpha=-0.1)
    return count.most / 1e9, count.bytes / 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", choices=["one", "files", "several"], help="print one of the tables")
    table = parser.parse_args().table
    with tempfile.TemporaryDirectory() as work:
        recorder = Recorder(work)
        if table in (None, "one"):
            one_gpu(recorder)
        if table in (None, "files"):
            networks_of_files(recorder)
        if table in (None, "several"):
            several_gpus(recorder)


def head(gpus, *packages):
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in packages)
    print(f"dmlx {revision()} compiled for {gpus} {GPU}, without one; {versions}; {datetime.date.today()}")


def size_of(batch):
    classes, images = map(int, batch.split("x"))
    return classes * images


def name_of(arch, flags):
    names = {"bf16": ", bf16", "--recompute": ", recomputed", "--micro-batch": ", of a micro-batch of 64"}
    return arch + "".join(text for flag, text in names.items() if flag in flags)


def one_gpu(recorder):
    """Steps of the ResNets, beside the same in flax and PyTorch."""
    head("one", "jax", "jaxlib", "flax", "torch")
    print(f"{'training step, 224 px':44} {'memory':>9} {'moved':>9} {'kernels':>8}   {'in flax':27} {'PyTorch, eager':>15}")
    topology = topology_of()
    for arch, batch, flags in STEPS:
        b = size_of(batch)
        row = "{:6.2f} GB {:6.1f} GB {:8d}".format(*taken(compile_for(topology, recorder.programs(arch, batch, flags)[-1])))
        if "--micro-batch" not in flags and "--recompute" not in flags:
            row += "   {:6.2f} GB {:5.1f} GB {:5d}".format(*taken(in_flax(topology, arch, b, "bf16" in flags)))
            row += f" {in_pytorch(arch, b, flags)[1]:12.1f} GB"
        print(f"{name_of(f'{arch}, B={b}', flags):44} {row}", flush=True)


def networks_of_files(recorder):
    """The same for networks of ONNX files, whole and in part, beside timm's network in PyTorch, with LoRA by peft."""
    head("one", "jax", "timm", "torch")
    print(f"{'training step of an ONNX file, 224 px':72} {'memory':>9} {'moved':>9} {'kernels':>8}   {'PyTorch, eager':>19}")
    topology = topology_of()
    for arch, batch, flags in FILES:
        programs = recorder.programs(recorder.network(arch), batch, flags, recorder.data(batch))
        name = f"{arch}, B={size_of(batch)} {' '.join(flags)}".replace(" --precision bf16", ", bf16")
        row = "{:6.2f} GB {:6.1f} GB {:8d}".format(*taken(compile_for(topology, programs[-1])))
        if "--keep" not in flags:
            row += "   {:6.2f} GB {:6.1f} GB".format(*in_pytorch(arch, size_of(batch), flags))
        print(f"{name:72} {row}", flush=True)


def several_gpus(recorder):
    """The memory of each of several GPUs for a step of a large batch."""
    head(", ".join(map(str, GPUS)), "jax")
    title = f"training step, 224 px, B={size_of(LARGE_BATCH)}"
    print(f"{title:44} {'GPUs':>5} {'memory of each':>15} {'exchanged by each':>18} {'collectives':>12}")
    for arch, flags in LARGE_STEPS:
        for gpus in GPUS:
            program = recorder.programs(arch, LARGE_BATCH, flags, recorder.data(LARGE_BATCH), gpus)[-1]
            executable = compile_for(topology_of(gpus), program)
            moved, collectives = exchanged(executable)
            print(f"{name_of(arch, flags):44} {gpus:5} {memory_of(executable):12.2f} GB {moved:15.3f} GB {collectives:12}",
                  flush=True)


if __name__ == "__main__":
    # XLA's tools are jax's own, and what needs a device is left out.
    tools = glob.glob(f"{Path(jax.__file__).parents[1]}/nvidia/cuda_nvcc")
    os.environ["XLA_FLAGS"] = " ".join(["--xla_gpu_autotune_level=0", *(f"--xla_gpu_cuda_data_dir={t}" for t in tools)])
    os.environ |= {"JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    main()
