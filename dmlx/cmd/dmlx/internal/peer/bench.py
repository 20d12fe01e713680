"""Times PyTorch, torchvision, Pillow, pytorch-metric-learning and faiss on what the benchmarks of the command measure, see
benchpeer_test.go.

It loads these libraries once, and forks a process for each that connects to the Unix socket of file descriptor 3, the path
of which is the argument. Standard input ends with the process that started it, and ends it.

The first line of a connection is "begin DEVICE SIZE PROCESS": the device is cpu or cuda, the size "small" if every path is to be
taken once, for a rehearsal, else "whole", and the fork joins the group of the process, to be ended with it. Every other line
names what to time: surgery, losses, step, resnet, convolution, input, recall, or "train NAME B PIXELS PRECISION"; "parity FLAGS"
are those of parity.py, and "export NAME FILE DMLX" writes the ONNX file of a network of timm by the script of `DMLX help onnx`.
The answer to each is a line of JSON. So the caller can measure something else in between, and ask again. Photographs and faiss
are the CPU's in any case. Between sections no memory of the device is kept, since the caller shares it. What cannot be
measured, as for lack of memory, is "missing".
"""

import concurrent.futures
import contextlib
import functools
import gc
import io
import json
import os
import select
import shlex
import shutil
import socket
import statistics
import sys
import time
import traceback

import numpy
import PIL.Image
import torch
import torchvision
from small import Small, exported

try:  # What is measured without them is measured.
    import faiss
except ImportError:
    faiss = None
try:
    from pytorch_metric_learning import distances, losses, miners
except ImportError:
    losses = None

lines, slow, missing = [], set(), []


def measure(step, least=1):
    times, begin = [], time.perf_counter()
    # For two seconds and six times at least, of which the first does not count; but what takes seconds, least times.
    while len(times) < 6 or time.perf_counter() - begin < 2:
        if small and times:
            break
        start = time.perf_counter()
        step()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(1000 * (time.perf_counter() - start))
        if time.perf_counter() - begin > 5 and len(times) >= least:
            break
    return times[1:] or times


def not_measured(what, error):
    missing.append(f"not measured: {what}: {type(error).__name__}: {' '.join(str(error).split())[:200]}")


def timed(name, ours, size, step, least=1):
    if (name, size) in slow:  # What takes seconds is not asked for twice.
        return
    try:
        times = measure(step, least)
    except Exception as e:  # Out of memory, or a library that does not fit this device: the others are measured.
        not_measured(f"{name}, {size}", e)
        return slow.add((name, size))
    lines.append({"Name": name, "Ours": ours, "Size": size, "Times": times})
    if min(times) > 2000:
        slow.add((name, size))
    return times


def batch(b, d):
    torch.manual_seed(1)
    return torch.randn(b, d, requires_grad=True), torch.arange(b) // 8


def surgery():
    sizes = ((512, 512), (2048, 512), (8192, 512), (16384, 512)) if device == "cuda" else ((128, 64), (512, 512))
    for b, d in ((64, 32),) if small else sizes:
        if not losses:
            break
        x, labels = batch(b, d)
        peers = {
            "PML multi-similarity with its miner": (losses.MultiSimilarityLoss(), miners.MultiSimilarityMiner()),
            "PML triplet, easy-hard miner": (
                losses.TripletMarginLoss(),
                miners.BatchEasyHardMiner(pos_strategy="easy", neg_strategy="hard"),
            ),
        }
        for name, (loss, miner) in peers.items():

            def step():
                x.grad = None
                loss(x, labels, miner(x, labels)).backward()

            timed(name, "surgery forward and backward", f"B={b} D={d}", step)


def each_loss():
    if not losses:
        return
    b, d = (64, 32) if small else (512, 512)
    x, labels = batch(b, d)
    c = int(labels.max()) + 1
    peers = {
        "contrastive": losses.ContrastiveLoss(distance=distances.LpDistance(power=2)),
        "triplet": losses.TripletMarginLoss(margin=0.2, distance=distances.LpDistance(power=2)),
        "triplet-soft": losses.TripletMarginLoss(margin=0, smooth_loss=True),
        "n-pair": losses.NPairsLoss(),
        "info-nce": losses.NTXentLoss(),
        "lifted": losses.LiftedStructureLoss(),
        "lifted-general": losses.GeneralizedLiftedStructureLoss(),
        "margin": losses.MarginLoss(),
        "ms": losses.MultiSimilarityLoss(),
        "circle": losses.CircleLoss(),
        "nca": losses.NCALoss(),
        "sup-con": losses.SupConLoss(),
        "proxy-nca": losses.ProxyNCALoss(c, d),
        "proxy-nca++": losses.ProxyNCALoss(c, d, softmax_scale=9),
        "proxy-anchor": losses.ProxyAnchorLoss(c, d),
        "soft-triple": losses.SoftTripleLoss(c, d),
        "norm-softmax": losses.NormalizedSoftmaxLoss(c, d),
        "arcface": losses.ArcFaceLoss(c, d),
    }
    for name, loss in peers.items():

        def step():
            x.grad = None
            for p in loss.parameters():
                p.grad = None
            loss(x, labels).backward()

        timed(f"PML {name}", f"loss {name} forward and backward", f"B={b} D={d}", step)


def nearest(x, labels):
    """The loss of cos/lin/cir by autograd: of each anchor's nearest positive and nearest negative."""
    f = torch.nn.functional.normalize(x)
    s, same = f @ f.T, labels[:, None] == labels
    positive = same & ~torch.eye(len(labels), dtype=torch.bool)
    sap, san = s.masked_fill(~positive, -2).amax(1), s.masked_fill(same, -2).amax(1)
    return torch.nn.functional.softplus(san**2 - sap * (2 - sap)).mean() / 2


@functools.cache
def quick_step(compiled):
    """A training step of the quick preset from images in memory, with its augmentation: crops of padded images, mirrored."""
    b, side, pad, dim = 64, 32, 2, 32
    net = Small(dim).to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    pool = torch.randint(0, 256, (1024, side + 2 * pad, side + 2 * pad, 3), dtype=torch.uint8)
    labels, steps = torch.arange(b) // 8, torch.arange(side)

    def loss_of(images):
        return nearest(net(images), labels)

    forward = torch.compile(loss_of, backend=compiler) if compiled else loss_of

    def step():
        mirrored = torch.where(torch.rand(b, 1) < 0.5, side - 1 - steps, steps)
        rows = steps + torch.randint(0, 2 * pad + 1, (b, 1))
        columns = mirrored + torch.randint(0, 2 * pad + 1, (b, 1))
        chosen = pool[torch.randint(0, len(pool), (b, 1, 1)), rows[:, :, None], columns[:, None]]
        images = ((chosen.float() - 127.5) / 64).permute(0, 3, 1, 2)  # Channels last in memory.
        optimizer.zero_grad()
        loss = forward(images)
        loss.backward()
        optimizer.step()
        return loss.item()

    step()
    return step


def quick():
    for name, compiled in (("PyTorch, channels last", False), ("PyTorch, channels last, compiled", True)):
        try:
            step = quick_step(compiled)
        except Exception as e:
            if not compiled:
                raise
            not_measured("torch.compile of the small network", e)
            continue
        timed(name, "training step", "quick minicar, B=64, 32 px", step)


def training(name, b, side, precision, compiled):
    """A training step of a network of torchvision or timm; its images are on the device already."""
    images, labels = torch.rand(b, 3, side, side), torch.arange(b) // 4
    if name == "small":
        net = Small(64)
    elif "resnet" in name:
        net = torchvision.models.get_model(name, num_classes=64)
    else:
        import timm

        net = timm.create_model(name, num_classes=64)
    net = net.to(memory_format=torch.channels_last).train()
    descent = torch.optim.SGD(net.parameters(), lr=1e-3)
    forward = torch.compile(net, backend=compiler) if compiled else net
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")

    def step():
        descent.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
            x = forward(images.contiguous(memory_format=torch.channels_last)).float()
        nearest(x, labels).backward()
        descent.step()

    return step


def free():
    """Gives the device's memory back."""
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()


def train(name, b, side, precision=""):
    """Training steps in eager PyTorch and compiled, which is left out on a CPU, where it does not help."""
    b, size = int(b), f"{name}, B={b}, {side} px" + (f", {precision}" if precision else "")
    for kind in ("", ", compiled")[: 2 if device == "cuda" or small else 1]:
        free()
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        try:
            times = measure(training(name, b, int(side), precision, bool(kind)), least=12)
        except Exception as e:
            not_measured(f"PyTorch{kind}, {size}", e)
            continue
        torch.compiler.reset()  # It keeps the network.
        line = {"Name": f"PyTorch, channels last{kind}", "Ours": "training step", "Size": size, "Times": times}
        lines.append(line | ({"Peak": torch.cuda.max_memory_allocated() / 1e9} if device == "cuda" else {}))


def resnet():
    for name in ("resnet18", "resnet50"):
        for precision in ("", "bf16") if device == "cuda" else ("",):
            train(name, 128 if device == "cuda" else 16, 224, precision)


def export(name, path, command):
    import timm

    with torch.device("cpu"):  # So that the device's memory and its kernels play no part.
        config = timm.data.resolve_model_data_config(timm.create_model(name))
        net = timm.create_model(name, num_classes=0)
        exported(command, net, path, config["input_size"][1], config["mean"], config["std"])


def convolutions():
    b, total = 16, 0
    for pixels, c, o, k, stride, count in (
        (224, 3, 64, 7, 2, 1), (56, 64, 64, 3, 1, 4), (56, 64, 128, 3, 2, 1), (28, 128, 128, 3, 1, 3),
        (28, 128, 256, 3, 2, 1), (14, 256, 256, 3, 1, 3), (14, 256, 512, 3, 2, 1), (7, 512, 512, 3, 1, 3),
    ):
        def last(t):
            return t.to(memory_format=torch.channels_last)

        x = last(torch.randn(b, c, pixels, pixels)).requires_grad_(c > 3)
        kernel = last(torch.randn(o, c, k, k)).requires_grad_()
        v = last(torch.randn(b, o, pixels // stride, pixels // stride))

        def step():
            x.grad = kernel.grad = None
            y = torch.nn.functional.conv2d(x, kernel, stride=stride, padding=k // 2)
            y.backward(v)

        name, ours = "PyTorch's, channels last", "convolution and its gradients"
        times = timed(name, ours, f"{c} to {o}, {k}×{k}/{stride}, {pixels} px, B={b}", step)
        total += count * statistics.median(times)
    lines.append({"Name": name, "Ours": "convolutions of a training step", "Size": f"resnet18, B={b}, 224 px",
                  "Times": [total]})


def photographs():
    n, width, height, side = 8 if small else 192, 500, 375, 256
    raw = io.BytesIO()
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    waves = [128 + 90 * torch.sin(0.05 * x + phase) * torch.cos(0.06 * y) + 12 * torch.rand(height, width)
             for phase in range(3)]
    pixels = torch.stack(waves, 2).clamp(0, 255).byte().cpu().numpy()
    PIL.Image.fromarray(pixels).save(raw, "JPEG", quality=90, subsampling=2)
    prepare = torchvision.transforms.Compose([torchvision.transforms.Resize(side),
                                              torchvision.transforms.CenterCrop(side)])

    def one(_):
        return prepare(PIL.Image.open(io.BytesIO(raw.getvalue())).convert("RGB")).tobytes()

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        timed("Pillow and torchvision", "photographs decoded and scaled", f"{n} JPEG files, {width}×{height} to {side} px",
              lambda: list(pool.map(one, range(n))))


def recall():
    for n, d in ((1000, 32),) if small else ((10000, 512), (60502, 512)):
        if device == "cuda" or small:
            unit = torch.nn.functional.normalize(torch.randn(n, d))
            for k in (8, 100 if small else 1000):

                def blocks():
                    for some in unit.split(4096):
                        (some @ unit.T).topk(k + 1)

                timed(f"PyTorch, {k} nearest", "recall, R-precision and MAP@R", f"N={n} D={d}", blocks)
        if not faiss:
            continue
        x = numpy.random.default_rng(1).standard_normal((n, d), dtype=numpy.float32)
        for k in (8, 100 if small else 1000):  # Of the paper's data sets, the largest K of CUB and CARS, and of Stanford Online Products.

            def search():
                unit = x.copy()
                faiss.normalize_L2(unit)
                index = faiss.IndexFlatIP(d)
                index.add(unit)
                index.search(unit, k + 1)  # The first is the query.

            timed(f"faiss-cpu flat, {k} nearest", "recall, R-precision and MAP@R", f"N={n} D={d}", search)


def parity(*flags):
    from parity import main

    torch.set_default_device("cpu")  # It chooses the device itself.
    torch.backends.cudnn.benchmark = False
    result, good = main(flags)
    return result | {"good": good}


def begin(on, size, caller):
    """Sets what all sections share."""
    global device, small, compiler
    os.setpgid(0, os.getpgid(int(caller)))
    device, small = on, size == "small"
    compiler = "aot_eager" if small else "inductor"  # Without a C++ compiler's time.
    if device == "cuda" and not torch.cuda.is_available():
        raise RuntimeError(f"torch {torch.__version__} sees no GPU")
    torch.set_default_device(device)
    torch.set_num_threads(os.cpu_count())
    torch.backends.cudnn.benchmark = True  # Convolutions of float32 are TF32's on a GPU, as XLA's are.
    if faiss:
        faiss.omp_set_num_threads(os.cpu_count())


sections = {"begin": begin, "surgery": surgery, "losses": each_loss, "step": quick, "resnet": resnet,
            "convolution": convolutions, "input": photographs, "recall": recall, "train": train, "export": export,
            "parity": parity}


def answer(line):
    """What a section measured and returned, or why it did not."""
    lines.clear()
    missing.clear()
    section, *args = shlex.split(line)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # What exporters print is no answer.
            result = sections[section](*args)
        free()
    except (Exception, SystemExit):  # argparse exits.
        return {"Error": traceback.format_exc()}
    return {"Lines": lines, "Missing": missing, "Result": result}


def main():
    server = socket.socket(fileno=3)
    while sys.stdin not in (ready := select.select([server, sys.stdin], [], [], 1)[0]):
        if ready:
            connection, _ = server.accept()
            if os.fork() == 0:
                with connection, connection.makefile("rw") as file:
                    for line in file:
                        print(json.dumps(answer(line)), file=file, flush=True)
                sys.exit()
            connection.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
    shutil.rmtree(os.path.dirname(sys.argv[1]))


if __name__ == "__main__":
    main()
