"""Measures how far the gradient of DistributedDataParallel is from that of the whole batch.

    pip install torch pytorch-metric-learning
    python dmlx/cmd/dmlx/internal/peer/ddp.py

What it printed is kept in testdata/ddp.txt. It starts two processes that share a batch by gloo, on a CPU.

The usual program gives each process half of the batch and lets it take the loss of its own half;
DistributedDataParallel averages the gradients. For a mean over images that is the gradient of the batch. A loss over
pairs or triplets is no such mean: it lacks all pairs with one image in each half, and a miner has fewer candidates. The
rows of the table are losses; the columns are

  classes together    each half has all images of its classes
  images at random    as a DistributedSampler divides them
  gathered, detached  each process gathers the embeddings of the other one as constants, a usual repair
  gathered            each process gathers them with their gradients, which are added up over the processes. This is
                      exact for a loss of the batch.

Each entry is |g − G| / |G|, lengths over all weights, and the cosine of g and G, where G is the gradient of the same loss
over the whole batch in one process. It is the mean of five batches. The network has four convolutions with group
normalization, since the statistics of batch normalization would be those of a half, too, unless they are synchronized.
"""

import argparse
import datetime
import importlib.metadata
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from pytorch_metric_learning import losses, miners
from small import revision

CLASSES, IMAGES, SIZE, DIM, BATCHES, PROCESSES = 16, 4, 32, 64, 5, 2


def objectives():
    """Losses by name: functions of embeddings and labels."""

    def mined(loss, miner):
        return lambda x, y: loss(x, y, miner(x, y))

    def fixed(make):  # With the same proxies in each process.
        torch.manual_seed(7)
        return make()

    proxies = fixed(lambda: losses.ProxyAnchorLoss(CLASSES, DIM))
    return {
        "contrastive": losses.ContrastiveLoss(),
        "triplet, easy positive and hard negative": mined(
            losses.TripletMarginLoss(margin=1.0),
            miners.BatchEasyHardMiner(pos_strategy="easy", neg_strategy="hard")),
        "multi-similarity with its miner": mined(losses.MultiSimilarityLoss(), miners.MultiSimilarityMiner()),
        "circle": losses.CircleLoss(),
        "NT-Xent": losses.NTXentLoss(),
        "proxy-anchor": proxies,
    }


def network():
    torch.manual_seed(1)
    layers, width = [], 3
    for wide in (16, 32, 64, 128):
        layers += [torch.nn.Conv2d(width, wide, 3, 2, 1), torch.nn.GroupNorm(4, wide), torch.nn.ReLU()]
        width = wide
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(width, DIM))


def batch(seed):
    """Images of classes with a pattern each, in random order."""
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(CLASSES).repeat_interleave(IMAGES)
    x = torch.randn(CLASSES, 3, SIZE, SIZE, generator=g)[y] + torch.randn(len(y), 3, SIZE, SIZE, generator=g)
    return x, y, torch.randperm(len(y), generator=g)


class Gather(torch.autograd.Function):
    """The rows of all processes. Its gradient is the sum of what all processes give to one's rows."""

    @staticmethod
    def forward(ctx, x):
        rows = [torch.empty_like(x) for _ in range(PROCESSES)]
        dist.all_gather(rows, x)
        return torch.cat(rows)

    @staticmethod
    def backward(ctx, g):
        g = g.contiguous()
        dist.all_reduce(g)
        return g.chunk(PROCESSES)[dist.get_rank()]


def gradient(net):
    return torch.cat([p.grad.flatten() for p in net.parameters()])


def work(rank, port, results):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=PROCESSES, timeout=datetime.timedelta(minutes=5))
    torch.set_num_threads(1)
    net, alone, found = network(), network(), {}
    ddp = torch.nn.parallel.DistributedDataParallel(net)
    for name, loss in objectives().items():
        columns = {}
        for seed in range(BATCHES):
            x, y, shuffled = batch(seed)
            alone.zero_grad()
            loss(alone(x), y).backward()
            whole = gradient(alone)

            def column(title, rows, take):
                net.zero_grad()
                take(ddp(x[rows]), y[rows]).backward()
                g = gradient(net)
                apart = ((g - whole).norm() / whole.norm()).item(), torch.cosine_similarity(g, whole, 0).item()
                columns.setdefault(title, []).append(apart)

            def gathered(x, y, attached):
                labels = [torch.empty_like(y) for _ in range(PROCESSES)]
                dist.all_gather(labels, y)
                if attached:
                    return loss(Gather.apply(x), torch.cat(labels))
                others = [torch.empty_like(x) for _ in range(PROCESSES)]
                dist.all_gather(others, x.detach())
                others[rank] = x
                return loss(torch.cat(others), torch.cat(labels))

            share = len(y) // PROCESSES
            together, random = torch.arange(len(y))[rank * share:][:share], shuffled[rank * share:][:share]
            column("classes together", together, loss)
            column("images at random", random, loss)
            column("gathered, detached", random, lambda x, y: gathered(x, y, False))
            column("gathered", random, lambda x, y: gathered(x, y, True))
        found[name] = columns
    if rank == 0:
        torch.save(found, results)
    dist.destroy_process_group()


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("torch", "pytorch-metric-learning"))
    with tempfile.TemporaryDirectory() as dir:
        mp.spawn(work, (29_400 + os.getpid() % 500, f"{dir}/found"), nprocs=PROCESSES)
        found = torch.load(f"{dir}/found")
    print(f"{revision()}; {versions}; {datetime.date.today()}; {PROCESSES} processes, {BATCHES} batches of "
          f"{CLASSES} × {IMAGES} images of {SIZE} px, |g − G| / |G| and cosine")
    titles = list(next(iter(found.values())))
    print(f"{'loss':42}" + "".join(f"{t:>20}" for t in titles))
    for name, columns in found.items():
        mean = {t: [sum(v) / len(v) for v in zip(*columns[t])] for t in titles}
        print(f"{name:42}" + "".join(f"{mean[t][0]:12.2g} {mean[t][1]:7.3f}" for t in titles))


if __name__ == "__main__":
    main()
