"""Trains with each option of training in PyTorch and by dmlx, and prints by how much they differ.

    pip install torch torchvision safetensors numpy pytorch-metric-learning
    GOEXPERIMENT=simd python dmlx/cmd/dmlx/internal/peer/options.py

What it printed is kept in testdata/options.txt. Networks, batches and the measure are those of parity.py: dmlx must be at
most LIMIT times as far from PyTorch's float64 as PyTorch's own float32 is, or its reverse.

Optimizers and schedules are torch.optim's, and frozen batch normalization is eval() and requires_grad. The triplets
of a rule are chosen by pytorch-metric-learning's BatchEasyHardMiner. A rule's gradient is written here a triplet at a time.
"""

import copy
import datetime
import platform
import sys

import numpy as np
import pytorch_metric_learning
import torch
from pytorch_metric_learning import miners
from pytorch_metric_learning.distances import CosineSimilarity
from torch.optim import SGD, Adam, AdamW, lr_scheduler

from parity import FLOOR, LIMIT, batches, draw, machine, normalized, ours, tensors
from small import flags_of, revision

STEPS, SIZE, DIM, RULE = 10, 32, 32, "cos/lin/cir"


class Case:
    """What is trained with, by dmlx's flags and in PyTorch."""

    def __init__(self, *flags, rate=0.001, optimizer=SGD, scheduler=None, head=1, filtered=None, prepare=lambda net: None,
                 objective=None):
        self.flags, self.rate, self.optimizer, self.scheduler = flags, rate, optimizer, scheduler
        self.head, self.filtered, self.prepare = head, filtered, prepare
        self.objective = objective or (lambda dtype: by_rule(ephn))

    def name(self):
        return " ".join(self.flags)

    def groups(self, net):
        """Parameters with their own rate or decay."""
        for name, p in net.named_parameters():
            if p.requires_grad:
                rate = self.rate * (self.head if name.startswith("fc.") else 1)
                decay = {} if self.filtered is None else {"weight_decay": self.filtered if p.dim() > 1 else 0}
                yield {"params": [p], "lr": rate, **decay}

    def train(self, net, pixels, labels, dtype):
        """Normalized embeddings of each batch before its step, and the weights at the end, in float64."""
        net = copy.deepcopy(net).to(dtype).train()
        self.prepare(net)
        optimizer = self.optimizer(list(self.groups(net)))
        scheduler = self.scheduler and self.scheduler(optimizer)
        backward = self.objective(dtype)
        embeddings = []
        for batch, classes in zip(pixels, labels):
            f = torch.nn.functional.normalize(net(normalized(batch, dtype)))
            optimizer.zero_grad()
            backward(f, torch.from_numpy(np.ascontiguousarray(classes)))
            optimizer.step()
            if scheduler:
                scheduler.step()
            embeddings.append(f.detach().double())
        return torch.stack(embeddings), tensors(net, torch.float64)

    def dmlx(self, o, backend, net, pixels, labels):
        """The same by dmlx."""
        return ours(o.dmlx, o.steps_by, backend, "small", net, pixels, labels, self.rate, "--rule", RULE, *self.flags)


def by_rule(mine):
    """The step of RULE, cos/lin/cir: P₊ = 1 - S_ap, P₋ = S_an, T = 1/(1 + exp(S_ap(2 - S_ap) - S_an²))."""

    def backward(f, labels):
        own = f.detach()
        total, found = torch.zeros_like(own), mine(own, labels)
        for a, p, n in found:
            sap, san = own[a] @ own[p], own[a] @ own[n]
            t = 1 / (1 + torch.exp(sap * (2 - sap) - san**2))
            total[a] += t * (san * own[n] - (1 - sap) * own[p])
            total[p] -= t * (1 - sap) * own[a]
            total[n] += t * san * own[a]
        f.backward(gradient=total / max(len(found), 1))

    return backward


def ephn(f, labels):
    """Of each anchor the nearest positive and the nearest negative."""
    out = []
    for a, s in enumerate(f @ f.T):
        same = labels == labels[a]
        others = same & (torch.arange(len(f)) != a)
        if others.any() and (~same).any():
            out.append((a, s.masked_fill(~others, -9).argmax().item(), s.masked_fill(same, -9).argmax().item()))
    return out


def easy_hard(positive, negative):
    miner = miners.BatchEasyHardMiner(positive, negative, distance=CosineSimilarity())

    def mine(f, labels):
        a, p, _, n = miner(f, labels)
        return list(zip(a.tolist(), p.tolist(), n.tolist()))

    return mine


def freeze(statistics, affine):
    def prepare(net):
        for m in net.modules():
            if isinstance(m, torch.nn.BatchNorm2d):
                m.train(not statistics)
                m.requires_grad_(not affine)

    return prepare


def decayed(optimizer, **options):
    return lambda groups: optimizer(groups, **options)


def warm(steps, then=None):
    """Linear warm-up, with the full rate in its last step."""

    def scheduler(o):
        first = lr_scheduler.LinearLR(o, start_factor=1 / steps, total_iters=steps - 1)
        return first if then is None else lr_scheduler.SequentialLR(o, [first, then(o)], [steps])

    return scheduler


CASES = [
    Case("--optimizer", "sgd?momentum=0.9", rate=0.0003, optimizer=decayed(SGD, momentum=0.9)),
    Case("--optimizer", "sgd?momentum=0.9&nesterov&weight-decay=0.01", rate=0.0003,
         optimizer=decayed(SGD, momentum=0.9, nesterov=True, weight_decay=0.01)),
    Case("--optimizer", "sgd?weight-decay=0.5&filter-bias-and-bn", filtered=0.5),
    Case("--optimizer", "adam", rate=0.0001, optimizer=Adam),
    Case("--optimizer", "adam?beta1=0.8&beta2=0.99&epsilon=1e-6&weight-decay=0.01", rate=0.0001,
         optimizer=decayed(Adam, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.01)),
    Case("--optimizer", "adamw", rate=0.0001, optimizer=AdamW),
    Case("--optimizer", "adamw?weight-decay=5&filter-bias-and-bn", rate=0.0001, optimizer=AdamW, filtered=5),
    Case("--schedule", "step?epochs=3,7", scheduler=lambda o: lr_scheduler.MultiStepLR(o, [3, 7])),
    Case("--schedule", "step?at=0.5&factor=0.2", scheduler=lambda o: lr_scheduler.StepLR(o, 5, 0.2)),
    Case("--schedule", "cosine", scheduler=lambda o: lr_scheduler.CosineAnnealingLR(o, STEPS)),
    Case("--schedule", "cosine?warmup=4", scheduler=warm(4, lambda o: lr_scheduler.CosineAnnealingLR(o, STEPS - 4))),
    Case("--schedule", "cosine?final=0.1", scheduler=lambda o: lr_scheduler.CosineAnnealingLR(o, STEPS, eta_min=0.0001)),
    Case("--schedule", "constant?warmup=5", scheduler=warm(5)),
    Case("--head-lr", "10x", head=10),
    Case("--head-lr", "0.05", "--optimizer", "adamw", "--schedule", "cosine?warmup=2", rate=0.0001, head=500, optimizer=AdamW,
         scheduler=warm(2, lambda o: lr_scheduler.CosineAnnealingLR(o, STEPS - 2))),
    Case("--freeze-bn", "statistics", rate=0.0003, prepare=freeze(True, False)),
    Case("--freeze-bn", "affine", prepare=freeze(False, True)),
    Case("--freeze-bn", "all", "--optimizer", "sgd?momentum=0.9", rate=0.0001, prepare=freeze(True, True),
         optimizer=decayed(SGD, momentum=0.9)),
    *[Case("--miner", flag, objective=lambda dtype, p=p, n=n: by_rule(easy_hard(p, n))) for flag, p, n in [
        ("hard", "hard", "hard"), ("easy-positive/semi-hard", "easy", "semihard"), ("easy-positive/easy", "easy", "easy"),
        ("hard-positive/semi-hard", "hard", "semihard"), ("hard-positive/easy", "hard", "easy"),
        ("semi-hard-positive", "semihard", "hard"), ("semi-hard-positive/easy", "semihard", "easy")]],
]


def main():
    p = flags_of(__doc__)
    p.add_argument("--backends", default="xla,go:ops_sequential", help="values of GOMLX_BACKEND (default: %(default)s)")
    p.add_argument("--only", default="", help="only cases with this text in their flags")
    o = p.parse_args()
    torch.set_num_threads(1)  # Rounding depends on how many there are.
    backends = o.backends.split(",")
    print(f"dmlx {revision()} beside torch {torch.__version__}, pytorch-metric-learning {pytorch_metric_learning.__version__}\n"
          f"{machine()}, {platform.system()}; {datetime.date.today()}\n"
          f"The small network, {STEPS} steps of 4 classes x 4 images of {SIZE} pixels, {DIM} dimensions; rule {RULE}.\n"
          f"share: the length of the difference from PyTorch's float64, for embeddings of the last step as a share of theirs, for\n"
          f"weights at the end as a share of how far they went; changed: how far the option takes the embeddings of the last step\n"
          f"from those without it, in the same measure; times: the larger of the shares over the larger of PyTorch float32's two.\n"
          f"Beyond {LIMIT} times, and above {FLOOR:g}, is too far.\n")
    head = [f"{'':66}", f"{'changed':>8}", f"{'PyTorch':>17}", f"{'in reverse':>17}"]
    print("  ".join(head + [f"{'dmlx ' + b:>25}" for b in backends]))
    net = draw("small", DIM, seed=1)
    pixels, labels = batches(STEPS, 4, 4, SIZE, seed=2)
    with torch.no_grad():  # Running averages as after training, to be frozen.
        for batch in np.concatenate([pixels] * 4):
            net.train()(normalized(batch, torch.float32))
    start, good, plain = tensors(net, torch.float64), True, {}
    for case in CASES:
        if o.only not in case.name():
            continue
        exact, exact_end = case.train(net, pixels, labels, torch.float64)
        runs = [case.train(net, pixels, labels, torch.float32)]
        reverse, end = case.train(net, pixels[:, ::-1].copy(), labels[:, ::-1], torch.float32)
        runs.append((reverse.flip(1), end))
        runs += [case.dmlx(o, b, net, pixels, labels) for b in backends]
        flat = lambda t: torch.cat([t[k].flatten() for k in start])
        shares = [(((e[-1] - exact[-1]).norm() / exact[-1].norm()).item(),
                   ((flat(end) - flat(exact_end)).norm() / (flat(exact_end) - flat(start)).norm()).item()) for e, end in runs]
        limits = [max(shares[0][i], shares[1][i]) for i in (0, 1)]
        good &= all(s[i] <= max(LIMIT * limits[i], FLOOR) for s in shares[2:] for i in (0, 1))
        if case.rate not in plain:
            plain[case.rate] = Case(rate=case.rate).train(net, pixels, labels, torch.float64)[0]
        changed = ((plain[case.rate][-1] - exact[-1]).norm() / exact[-1].norm()).item()
        cells = [f"{s[0]:8.1e} {s[1]:8.1e}" + (f" {max(s[0] / limits[0], s[1] / limits[1]):7.2f}" if i > 1 else "")
                 for i, s in enumerate(shares)]
        print("  ".join([f"{case.name():66}", f"{changed:8.1e}"] + cells))
        sys.stdout.flush()
    print("\n" + ("All are near enough." if good else "Some are too far."))
    sys.exit(not good)


if __name__ == "__main__":
    main()
