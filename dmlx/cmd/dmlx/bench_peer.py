"""Times pytorch-metric-learning on the batches of `dmlx bench --only surgery`, as JSON on standard output."""

import json
import os
import time

import torch
from pytorch_metric_learning import losses, miners

torch.set_num_threads(os.cpu_count())
lines = []
for b, d in ((128, 64), (512, 512)):
    torch.manual_seed(1)
    x = torch.randn(b, d, requires_grad=True)
    labels = torch.arange(b) // 8
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

        for _ in range(5):
            step()
        times, begin = [], time.perf_counter()
        while len(times) < 5 or time.perf_counter() - begin < 2:
            start = time.perf_counter()
            step()
            times.append(1000 * (time.perf_counter() - start))
        lines.append({"Name": name, "Size": f"B={b} D={d}", "B": b, "D": d, "Times": times})
print(json.dumps(lines))
