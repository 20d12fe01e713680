"""Trains in PyTorch and by dmlx, from equal weights on equal batches, and prints by how much they differ.

    pip install torch torchvision safetensors numpy
    GOEXPERIMENT=simd python dmlx/cmd/dmlx/internal/peer/parity.py

What it printed is kept in testdata/parity.txt.

The same steps are taken by PyTorch in float64, by PyTorch in float32, and by dmlx in float32 on each backend. All
float32 runs drift away from float64, at times by a jump, as where a value close to zero falls on the other side of a
ReLU, and the higher the learning rate, the faster. So rates are low, and the measure of dmlx is PyTorch's own
float32: the further of two runs, of which one has its batches in reverse order, which changes nothing but rounding.

Nothing is shared with the Go side: networks are torchvision's (the small one is put together from its blocks), and a
rule is written here from the paper's equations, a triplet at a time, and given to PyTorch as the gradient at the
embeddings. The exit code is 1 if a run of dmlx is further than LIMIT times as far from float64 as PyTorch's float32
is.

With --fixture FILE it writes, instead, what float64 gives for the small network from weights that need no file, for
dmlx/train's tests.
"""

import copy
import datetime
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import safetensors
import safetensors.torch
import torch
import torchvision
from small import Small, exported, flags_of, revision, steps_by

RULES = {"cos/con/con": 0.02, "cos-orth/lin-ms/cir": 0.01, "euc/sig-ms/cos+sc1": 0.002}  # With their learning rates.
SIZES = {"resnet18": (64, 64), "resnet50": (64, 64), "small": (32, 32), "vit": (32, 32)}  # Side of the images, and dimension of the embedding.
SLOWER = {"resnet18": 40, "resnet50": 40, "small": 1, "vit": 10}  # What rates are divided by: at 0.02 ResNet-18 multiplies a difference by 25 in a step.
LIMIT, FLOOR = 3, 1e-6  # Times PyTorch's own distance; and what is nothing in float32, as a share.
MEAN, STD = (0.5, 0.375, 0.625), (0.25, 0.1875, 0.3125)


class Headed(torch.nn.Module):
    """A network of timm and a last layer."""

    def __init__(self, trunk, dim):
        super().__init__()
        self.trunk, self.fc = trunk, torch.nn.Linear(trunk.num_features, dim)

    def forward(self, x):
        return self.fc(self.trunk(x))


def network(arch, dim):
    if arch == "vit":
        import timm

        size = {"img_size": SIZES[arch][0], "patch_size": 8, "embed_dim": 48, "num_heads": 3, "depth": 2}
        return Headed(timm.create_model("vit_tiny_patch16_224", num_classes=0, **size), dim)
    return Small(dim) if arch == "small" else getattr(torchvision.models, arch)(num_classes=dim)


def nearest(s, labels, a):
    """EPHN: the anchor's positives and negatives, and of each the nearest, the first among equals."""
    positives = [i for i in range(len(labels)) if i != a and labels[i] == labels[a]]
    negatives = [i for i in range(len(labels)) if labels[i] != labels[a]]
    if not positives or not negatives:
        return None
    return positives, negatives, max(positives, key=lambda i: s[a, i].item()), max(negatives, key=lambda i: s[a, i].item())


def mined(f, labels):
    """The triplets of embeddings [B, D], as a list."""
    s = f @ f.T
    return [t and t[2:] for t in (nearest(s, labels, a) for a in range(len(labels)))]


def gradient(f, labels, rule):
    """The rule's gradient at the normalized embeddings f [B, D]: the mean over the anchors' triplets. Sections 3.1 to 3.4."""
    direction, pair, triplet = rule.split("/")
    triplet, _, mask = triplet.partition("+")
    alpha, beta, lam, eps, tau = 2, 10, 0.5, 0.1, 1
    exp, norm = torch.exp, torch.linalg.vector_norm
    s, total, count = f @ f.T, torch.zeros_like(f), 0
    for a in range(len(f)):
        found = nearest(s, labels, a)
        if found is None:
            continue
        positives, negatives, p, n = found
        fa, fp, fn, sap, san = f[a], f[p], f[n], s[a, p], s[a, n]

        # Eq. 5 to 7: how p and n move, and a because of p and because of n.
        if direction.startswith("cos"):
            ep, en, eap, ean = -fa, fa, -fp, fn
        else:
            ep, en = (fp - fa) / norm(fp - fa), (fa - fn) / norm(fa - fn)
            eap, ean = -ep, -en
        if direction.endswith("-orth"):
            u = (fa - fp) / norm(fa - fp)
            en, ean = en - (en @ u) * u, ean - (ean @ u) * u
            en, ean = en / norm(en), ean / norm(ean)

        # Eq. 8, 12 to 14.
        others_p = [s[a, i] for i in positives if i != p and s[a, i] < max(s[a, j] for j in negatives) + eps]
        others_n = [s[a, j] for j in negatives if j != n and s[a, j] > min(s[a, i] for i in positives) - eps]
        if pair == "con":
            wp, wn = 1, 1
        elif pair == "lin-ms":
            mp = sum(sap - r for r in others_p) / max(len(others_p), 1)
            mn = sum(san - r for r in others_n) / max(len(others_n), 1)
            wp, wn = (1 - mp) * (1 - sap), (1 + mn) * san
        elif pair == "sig-ms":
            mp = sum(exp(alpha * (sap - r)) for r in others_p) / len(others_p) if others_p else 1
            mn = sum(exp(-beta * (san - r)) for r in others_n) / len(others_n) if others_n else 1
            wp, wn = 1 / (mp + exp(alpha * (sap - lam))), 1 / (mn + exp(-beta * (san - lam)))
        else:
            raise ValueError(pair)

        # Eq. 15 to 18.
        t = {
            "con": lambda: 0.5,
            "cos": lambda: 1 / (1 + exp(tau * (sap - san))),
            "cir": lambda: 1 / (1 + exp(tau * (sap * (2 - sap) - san**2))),
        }[triplet]()
        if mask == "sc1" and san > sap:
            wp = 0
        total[p] += t * wp * ep
        total[n] += t * wn * en
        total[a] += t * (wp * eap + wn * ean)
        count += 1
    return total / max(count, 1)


def normalized(batch, dtype, device="cpu"):
    """Pixels [B, H, H, 3] as a network's input."""
    mean, std = (torch.tensor(v, dtype=dtype, device=device).view(1, 3, 1, 1) for v in (MEAN, STD))
    return (torch.from_numpy(batch).permute(0, 3, 1, 2).to(device, dtype) / 255 - mean) / std


def train(net, pixels, labels, rule, rate, dtype, device="cpu", bf16=False):
    """Steps of SGD. Gives the batches' normalized embeddings, each before its step, and the weights at the end, in float64."""
    net = copy.deepcopy(net).to(device, dtype).train()
    optimizer = torch.optim.SGD(net.parameters(), rate)
    embeddings = []
    for batch, classes in zip(pixels, labels):
        with torch.autocast(device, torch.bfloat16, enabled=bf16):
            x = net(normalized(batch, dtype, device))
        f = torch.nn.functional.normalize(x.to(dtype))
        optimizer.zero_grad()
        f.backward(gradient=gradient(f.detach().cpu(), classes, rule).to(device))
        optimizer.step()
        embeddings.append(f.detach().cpu().double())
    return torch.stack(embeddings), tensors(net, torch.float64)


def tensors(net, dtype=torch.float32):
    """Weights and running averages by name."""
    return {k.removeprefix("trunk."): v.detach().to("cpu", dtype).contiguous() for k, v in net.state_dict().items()
            if not k.endswith("num_batches_tracked")}


def draw(arch, dim, seed):
    """Weights by torchvision's initialization, with batch normalization away from the identity."""
    torch.manual_seed(seed)
    net = network(arch, dim)
    for m in net.modules():
        if isinstance(m, torch.nn.BatchNorm2d):
            for t, middle in ((m.weight, 1), (m.bias, 0), (m.running_mean, 0), (m.running_var, 1)):
                torch.nn.init.uniform_(t, middle - 0.4, middle + 0.4)
    return net


def batches(steps, classes, images, size, seed):
    """Pixels, uint8 [K, B, H, H, 3], those of a class with a pattern in common, and labels, int64 [K, B]."""
    rng = np.random.default_rng(seed)
    patterns = rng.uniform(0, 255, (3 * classes, 4, 4, 3)).repeat(size // 4, 1).repeat(size // 4, 2)
    labels = np.stack([rng.permutation(3 * classes)[:classes].repeat(images) for _ in range(steps)])
    noise = rng.uniform(0, 255, (*labels.shape, 8, 8, 3)).repeat(size // 8, 2).repeat(size // 8, 3)
    pixels = 0.4 * patterns[labels] + 0.4 * noise + 0.2 * rng.uniform(0, 255, (*labels.shape, size, size, 3))
    return pixels.astype(np.uint8), labels


def ours(command, steps, backend, arch, net, pixels, labels, rate, *flags):
    """What dmlx does by other flags, as train gives it."""
    with tempfile.TemporaryDirectory() as d:
        d, weights = Path(d), tensors(net)
        if arch == "vit":
            arch = exported(command, copy.deepcopy(net.trunk), d / "net.onnx", pixels.shape[2], MEAN, STD)
        safetensors.torch.save_file(weights, d / "w.safetensors")
        np.save(d / "p.npy", pixels)
        np.save(d / "l.npy", labels)
        colors = ["--mean", ",".join(map(str, MEAN)), "--std", ",".join(map(str, STD))]
        args = ["--weights", d / "w.safetensors", "--pixels", d / "p.npy", "--labels", d / "l.npy", "--out", d / "out"]
        done = subprocess.run(
            [*steps_by(steps), "--arch", str(arch), "--lr", str(rate), *flags, *colors,
             *map(str, args)],
            env={**os.environ, "GOMLX_BACKEND": backend}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(flags)}: {done.stderr.strip()}")
        end = {k: v.double() for k, v in safetensors.torch.load_file(d / "out" / "weights.safetensors").items()}
        return torch.from_numpy(np.load(d / "out" / "embeddings.npy")).double(), end


def compare(arch, rule, rate, backends, command, by, steps, device, precision):
    """Prints a table. Gives the most times PyTorch's own distance that a run of dmlx is from float64, and whether all of its runs
    are as near as can be asked."""
    size, dim = SIZES[arch]
    net = draw(arch, dim, seed=1)
    pixels, labels = batches(steps, 4, 4, size, seed=2)
    exact, exact_end = train(net, pixels, labels, rule, rate, torch.float64)
    lower = {"dtype": torch.float32, "device": device, "bf16": precision == "bf16"}
    runs = {f"PyTorch {precision or 'float32'}": train(net, pixels, labels, rule, rate, **lower)}
    reverse, end = train(net, pixels[:, ::-1].copy(), labels[:, ::-1], rule, rate, **lower)
    runs["in reverse"] = reverse.flip(1), end
    flags = ["--rule", rule] + (["--precision", precision] if precision else [])
    for b in backends:
        runs[f"dmlx {b}"] = ours(command, by, b, arch, net, pixels, labels, rate, *flags)
    start = tensors(net, torch.float64)
    assert all(sorted(end) == sorted(start) for _, end in runs.values())

    # Each row: what it is, its values in float64, what a difference is a share of, and its values in the runs.
    rows = [(f"embeddings, step {k + 1}", exact[k], exact[k], [e[k] for e, _ in runs.values()]) for k in range(steps)]
    for what, averages in (("weights at the end", False), ("running averages", True)):
        names = [k for k in start if ("running" in k) == averages]
        flat = lambda t: torch.cat([t[k].flatten() for k in names])
        if names:
            rows.append((what, flat(exact_end), flat(exact_end) - flat(start), [flat(end) for _, end in runs.values()]))

    similarities = exact @ exact.mT
    print(f"\n{arch}, {rule}, learning rate {rate:g}: {steps} batches of 4 classes x 4 images of {size} pixels, {dim} dimensions")
    print(f"  similarities in float64 {similarities.mean():.2f} on average in the first to the last step: "
          + " ".join(f"{s.mean():.2f}" for s in similarities))
    widths = [17, 17] + [25] * len(backends)
    print(f"  {'distance from PyTorch float64':29} " + "  ".join(f"{name:>{w}}" for name, w in zip(runs, widths)))
    print(f"  {'':29} " + "  ".join(f"{'max':>8} {'share':>8}" + (f" {'times':>7}" if w > 17 else "") for w in widths))
    good, most = True, 0
    for what, truth, scale, values in rows:
        shares = [((v - truth).norm() / scale.norm()).item() for v in values]
        yard = max(shares[:2])
        good &= max(shares[2:]) <= max(LIMIT * yard, FLOOR)
        if precision and what == "embeddings, step 1":  # In float32 they would be much nearer.
            good &= min(shares[2:]) >= yard / 10
        most = max(most, max(shares[2:]) / max(yard, FLOOR / LIMIT))
        cells = [f"{(v - truth).abs().max():8.1e} {share:8.1e}" for v, share in zip(values, shares)]
        print(f"  {what:29} " + "  ".join(cells[:2] + [f"{c} {share / yard:7.2f}" for c, share in zip(cells[2:], shares[2:])]))
    triplets = [mined(e, l) for e, l in zip(exact, labels)]
    others = [sum(x != y for k in range(steps) for x, y in zip(triplets[k], mined(e[k], labels[k]))) for e, _ in runs.values()]
    print(f"  {f'other triplets, of {labels.size}':29} " + "  ".join(f"{n:{w}d}" for n, w in zip(others, widths)))
    return most, good


def congruential(x, n):
    """n numbers of 16 bits that any program can draw: the high ones of a linear congruential generator."""
    out = []
    for _ in range(n):
        x = (1103515245 * x + 12345) % 2**31
        out.append(x >> 15)
    return out


def plain(net, seed):
    """Sets weights to multiples of a power of two, the generator started anew for each tensor."""
    for name, t in net.state_dict().items():
        if name.endswith("num_batches_tracked"):
            continue
        v = torch.tensor(congruential(seed + sum(name.encode()), t.numel()), dtype=torch.float64)
        v = v.view(t.shape) / 2**16 - 0.5
        if t.dim() > 1:
            v = v * 2.0 ** -round(np.log2(v[0].numel()) / 2 - 1)
        elif name.endswith(("running_var", "weight")):
            v = v + 1
        t.copy_(v)


def fixture():
    """Three steps of the small network by each rule in float64: embeddings, and some values of each tensor at the end."""
    steps, batch, size, dim = 3, 12, 32, 8
    net = network("small", dim)
    plain(net, 1)
    pixels = (np.array(congruential(2, steps * batch * size * size * 3)) >> 8).astype(np.uint8).reshape(steps, batch, size, size, 3)
    coarse = pixels[:, :, :4, :4].repeat(size // 4, 2).repeat(size // 4, 3)
    pixels, labels = coarse // 2 + pixels // 2, np.arange(batch)[None].repeat(steps, 0) // 4
    cases = []
    for rule, rate in RULES.items():
        f, end = train(net, pixels, labels, rule, rate, torch.float64)
        at = lambda v: [[i, round(v.flatten()[i].item(), 9)] for i in sorted({0, v.numel() // 3, v.numel() - 1})]
        end = {k: at(v) for k, v in end.items()}
        cases.append({"rule": rule, "lr": rate, "embeddings": [round(x, 9) for x in f.flatten().tolist()], "end": end})
    return {
        "steps": steps, "batch": batch, "size": size, "dim": dim, "mean": MEAN, "std": STD,
        "labels": labels.flatten().tolist(), "cases": cases,
    }


def machine():
    try:
        model = next(l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor() or platform.machine()
    return f"{model}, {os.cpu_count()} cores"


def main(flags=None):
    """Prints the tables, and gives their summary and whether all runs are near enough."""
    p = flags_of(__doc__)
    # In parallel, large products of gomlx/compute v0.1.3 could wait for each other for ever on few cores.
    p.add_argument("--backends", default="xla,go:ops_sequential", help="values of GOMLX_BACKEND (default: %(default)s)")
    p.add_argument("--arch", default="resnet18,small", help="of " + ", ".join(SIZES) + "; vit is timm's, by an ONNX file (default: %(default)s)")
    p.add_argument("--rules", default=",".join(RULES), help="rules (default: %(default)s)")
    p.add_argument("--precision", default="", choices=["", "bf16"], help="of the network, in PyTorch by autocast (default: float32)")
    p.add_argument("--device", default="cpu", help="of PyTorch's float32 and bf16 (default: %(default)s)")
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--fixture", metavar="FILE", help="write the fixture of dmlx/train's test and end")
    o = p.parse_args(flags)
    if o.fixture:
        Path(o.fixture).write_text(json.dumps(fixture()) + "\n")
        return {}, True
    for names, known in ((o.arch, SIZES), (o.rules, RULES)):
        if unknown := set(names.split(",")) - set(known):
            p.error(f"{', '.join(unknown)}: want some of {', '.join(known)}")
    print(f"dmlx {revision()} beside torch {torch.__version__}, torchvision {torchvision.__version__}, numpy {np.__version__}, "
          f"safetensors {safetensors.__version__}\n{machine()}, {platform.system()}; {datetime.date.today()}")
    print(f"max: the largest difference from float64; share: its length as a share of the values', for weights and averages of how\n"
          f"far they went from their start; times: that share over the larger of PyTorch float32's two. Beyond {LIMIT} times, and\n"
          f"above {FLOOR:g}, is too far.")
    torch.set_num_threads(1)  # Rounding depends on how many there are.
    times, all_good = {}, True
    for arch in o.arch.split(","):
        for rule in o.rules.split(","):
            rate = RULES[rule] / SLOWER[arch]
            times[f"{arch}, {rule}"], good = compare(arch, rule, rate, o.backends.split(","), o.dmlx, o.steps_by, o.steps, o.device, o.precision)
            all_good &= good
            sys.stdout.flush()
    print("\n" + ("All are near enough." if all_good else "Some are too far."))
    summary = f"at most {max(times.values()):.1f} times as far from float64 as PyTorch's {o.precision or 'float32'}"
    return {"summary": summary, "times": times, "torch": torch.__version__, "device": o.device}, all_good


if __name__ == "__main__":
    sys.exit(not main()[1])
