"""Times pytorch-metric-learning on the batches of `dmlx bench`, as JSON on standard output.

Arguments are what to time, of surgery and losses; none is all.
"""

import json
import os
import sys
import time

import torch
from pytorch_metric_learning import distances, losses, miners

torch.set_num_threads(os.cpu_count())
lines = []


def timed(name, ours, b, d, step):
    times, begin = [], time.perf_counter()
    # For two seconds and five times at least, of which the first does not count; but what takes seconds, once.
    while len(times) < 6 or time.perf_counter() - begin < 2:
        start = time.perf_counter()
        step()
        times.append(1000 * (time.perf_counter() - start))
        if time.perf_counter() - begin > 5:
            break
    times = times[1:] or times
    lines.append({"Name": name, "Ours": ours, "Size": f"B={b} D={d}", "Times": times})


def batch(b, d):
    torch.manual_seed(1)
    return torch.randn(b, d, requires_grad=True), torch.arange(b) // 8


def surgery():
    for b, d in ((128, 64), (512, 512)):
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

            timed(name, "surgery forward and backward", b, d, step)


def each_loss():
    b, d = 512, 512
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

        timed(f"PML {name}", f"loss {name} forward and backward", b, d, step)


for name, run in {"surgery": surgery, "losses": each_loss}.items():
    if len(sys.argv) < 2 or name in sys.argv[1:]:
        run()
print(json.dumps(lines))
