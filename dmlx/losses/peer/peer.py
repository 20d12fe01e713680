"""Writes peer.json: values and gradients of pytorch-metric-learning for the losses of this package, in float64.

    python peer.py        # with torch and pytorch-metric-learning; beside this file

The gradients are those at the un-normalised embeddings and proxies. Where pytorch-metric-learning has no such loss, or
departs from the paper, the formula stands here in PyTorch, and "peer" says "formula".
"""

import json
import math
import os

import pytorch_metric_learning
import torch
import torch.nn.functional as F
from pytorch_metric_learning import distances, losses, miners

torch.set_default_dtype(torch.float64)


def similarities(x):
    x = F.normalize(x)
    return x @ x.T


def pairs(labels):
    same = labels[:, None] == labels[None, :]
    return same & ~torch.eye(len(labels), dtype=torch.bool), ~same


def contrastive(x, labels):
    d = (2 - 2 * similarities(x)).clamp(min=0)
    p, n = pairs(labels)
    push = F.relu(1 - d[n].sqrt()).square() / 2
    return d[p].mean() / 2 + (push[push > 0].mean() if (push > 0).any() else 0)


def binomial(x, labels):
    s = similarities(x)
    p, n = pairs(labels)
    return F.softplus(-2 * (s[p] - 0.5)).mean() + F.softplus(50 * (s[n] - 0.5)).mean()


def proxy_nca(x, labels, proxies):
    d = (F.normalize(x)[:, None] - F.normalize(proxies)[None]).square().sum(-1)
    own = F.one_hot(labels, len(proxies)).bool()
    return (d[own] + torch.logsumexp((-d).masked_fill(own, -math.inf), 1)).mean()


def sincere(x, labels):
    s = similarities(x) / 0.07
    p, n = pairs(labels)
    rows = []
    for a in range(len(labels)):
        if p[a].any():
            rows.append(torch.stack([torch.logsumexp(torch.cat([s[a, j][None], s[a][n[a]]]), 0) - s[a, j]
                                     for j in p[a].nonzero().flatten()]).mean())
    return torch.stack(rows).mean()


def siglip(x, labels):
    z = 10 * similarities(x) - 10
    p, n = pairs(labels)
    return (F.softplus(-z[p]).sum() + F.softplus(z[n]).sum()) / len(labels)


def ranking(x, labels, of):
    """Mean of `of(leads of positives, of negatives)` of each positive over the positives, then over anchors with some."""
    s = similarities(x)
    p, n = pairs(labels)
    rows = []
    for a in range(len(labels)):
        own = p[a].nonzero().flatten()
        if len(own):
            rows.append(of([(s[a][own[own != j]] - s[a, j], s[a][n[a]] - s[a, j]) for j in own]))
    return torch.stack(rows).mean()


def smooth_ap(x, labels):
    def loss(leads):
        ranks = [(1 + (up / 0.01).sigmoid().sum(), (un / 0.01).sigmoid().sum()) for up, un in leads]
        return 1 - torch.stack([p / (p + n) for p, n in ranks]).mean()
    return ranking(x, labels, loss)


def sup_ap(x, labels):
    edge = 1 / (1 + math.exp(-5)) + 0.5
    def above(d):
        return torch.where(d <= 0, (d / 0.01).sigmoid(), torch.where(d <= 0.05, (d / 0.01).sigmoid() + 0.5, 100 * (d - 0.05) + edge))
    def loss(leads):
        ranks = [(1 + (up >= 0).sum(), above(un).sum()) for up, un in leads]
        return 1 - torch.stack([p / (p + n) for p, n in ranks]).mean()
    return ranking(x, labels, loss)


def recall_at_k(x, labels):
    def loss(leads):
        ranks = torch.stack([1 + (torch.cat(d) / 0.01).sigmoid().sum() for d in leads])
        parts = [(k - ranks).sigmoid().sum().clamp(max=k) / min(k, len(ranks)) for k in (1, 2, 4, 8, 16)]
        return 1 - torch.stack(parts).mean()
    return ranking(x, labels, loss)


def pfml(x, labels, centers):
    z = torch.cat([F.normalize(x), F.normalize(centers)])
    own = torch.cat([labels, torch.arange(len(centers)) // 3])
    energy = 0
    for i in range(len(z)):
        for j in range(len(z)):
            if i != j:
                d = (z[i] - z[j]).norm()
                energy = energy + (-d.clamp(min=0.2) ** -3 if own[i] == own[j] else d.clamp(max=0.2) ** -3)
    return energy / len(x)


def spread(centers, k):
    c = F.normalize(centers).view(-1, k, centers.shape[1])
    total = 0
    for w in c:
        for s in range(k):
            for t in range(s):
                total = total + (w[s] - w[t]).norm()
    return total / (len(c) * k * (k - 1))


def mined(loss, miner):
    return lambda x, labels: loss(x, labels, miner(x, labels))


# Name here: (whose, loss of embeddings and labels), or for losses with proxies (whose, loss, name of the parameter).
squared = {"distance": distances.LpDistance(power=2)}
PAIRS = {
    "contrastive": ("formula", contrastive),
    "contrastive?power=1": ("PML", losses.ContrastiveLoss()),
    "triplet": ("PML", losses.TripletMarginLoss(margin=0.2, **squared)),
    "triplet?power=1&margin=0.05": ("PML", losses.TripletMarginLoss()),
    "triplet-soft": ("PML", losses.TripletMarginLoss(margin=0, smooth_loss=True)),
    "n-pair": ("PML", losses.NPairsLoss()),
    "info-nce": ("PML", losses.NTXentLoss()),
    "info-nce?temperature=0.5": ("PML", losses.NTXentLoss(temperature=0.5)),
    "lifted": ("PML", losses.LiftedStructureLoss()),
    "lifted-general": ("PML", losses.GeneralizedLiftedStructureLoss()),
    "margin": ("PML", losses.MarginLoss()),
    "ms": ("PML", losses.MultiSimilarityLoss()),
    "ms?beta=40 with its miner": ("PML", mined(losses.MultiSimilarityLoss(beta=40), miners.MultiSimilarityMiner())),
    "circle": ("PML", losses.CircleLoss()),
    "circle?m=0.25&gamma=256": ("PML", losses.CircleLoss(m=0.25, gamma=256)),
    "binomial": ("formula", binomial),
    "nca": ("PML", losses.NCALoss()),
    "sup-con": ("PML", losses.SupConLoss()),
    "sincere": ("formula", sincere),
    "siglip": ("formula", siglip),
    "tcm": ("PML", losses.ThresholdConsistentMarginLoss()),
    "smooth-ap": ("formula", smooth_ap),
    "smooth-ap?itself": ("PML", losses.SmoothAPLoss()),
    "sup-ap": ("formula", sup_ap),
    "recall-at-k": ("formula", recall_at_k),
}


def proxied(classes, dim, proxies, centers):
    return {
        "proxy-nca": ("formula", proxy_nca, proxies),
        "proxy-nca?all": ("PML", losses.ProxyNCALoss(classes, dim), proxies),
        "proxy-nca++": ("PML", losses.ProxyNCALoss(classes, dim, softmax_scale=9), proxies),
        "proxy-anchor": ("PML", losses.ProxyAnchorLoss(classes, dim), proxies),
        "soft-triple?centers=3&tau=0": ("PML", losses.SoftTripleLoss(classes, dim, centers_per_class=3), centers),
        "soft-triple?centers=3": ("PML + formula", losses.SoftTripleLoss(classes, dim, centers_per_class=3), centers),
        "norm-softmax": ("PML", losses.NormalizedSoftmaxLoss(classes, dim), proxies),
        "arcface": ("PML", losses.ArcFaceLoss(classes, dim, margin=math.degrees(0.5)), proxies),
        "sub-arcface": ("PML", losses.SubCenterArcFaceLoss(num_classes=classes, embedding_size=dim, margin=math.degrees(0.5)), centers),
        "cosface": ("PML", losses.CosFaceLoss(classes, dim), proxies),
        "pfml?centers=3": ("formula", pfml, centers),
    }


def numbers(t):
    return [float(f"{v:.9g}") for v in t.flatten().tolist()]


def batch(seed, labels, dim, classes, tight, square=False):
    g = torch.Generator().manual_seed(seed)
    labels = torch.tensor(labels)
    centres = torch.randn(classes, dim, generator=g)
    draw = lambda rows, at: ((tight * at + torch.randn(rows, dim, generator=g)) * 1.5).float().double()
    x = draw(len(labels), centres[labels])
    proxies = draw(classes, centres)
    centers = draw(3 * classes, centres.repeat_interleave(3, 0))
    out = {"labels": labels.tolist(), "dim": dim, "embeddings": numbers(x), "proxies": numbers(proxies), "centers": numbers(centers), "losses": []}
    for name, (whose, loss) in PAIRS.items():
        if "miner" in name and len(miners.MultiSimilarityMiner()(x, labels)[0]) < 2:
            continue  # pytorch-metric-learning takes a single pair of each kind for none.
        if ("itself" in name) != square:
            continue
        e = x.clone().requires_grad_()
        value = loss(e, labels)
        value.backward()
        out["losses"].append({"name": name, "peer": whose, "value": value.item(), "gradient": numbers(e.grad)})
    for name, (whose, loss, p) in ({} if square else proxied(classes, dim, proxies, centers)).items():
        e = x.clone().requires_grad_()
        if whose == "formula":
            q = p.clone().requires_grad_()
            value = loss(e, labels, q)
        else:
            (q,) = loss.parameters()
            q.data = p.clone() if len(p) == q.shape[0] and q.shape[1] == dim else p.T.contiguous().clone()
            value = loss(e, labels)
            if "+" in whose:
                value = value + 0.2 * spread(q.T, 3)
        value.backward()
        grad = q.grad if q.shape[1] == dim and len(p) == q.shape[0] else q.grad.T
        out["losses"].append({"name": name, "peer": whose, "value": value.item(), "gradient": numbers(e.grad), "proxies": numbers(grad)})
    return out


fixture = {
    "torch": torch.__version__.split("+")[0],
    "pytorch-metric-learning": pytorch_metric_learning.__version__,
    "batches": [
        # Two or more of a class, and a class of one: what it has no positive for.
        batch(1, [0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4], 6, 5, 0.7),
        batch(2, [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3], 5, 4, 2.5),
        # For SmoothAPLoss, which takes images per class for classes and a batch for sorted: right where that is so.
        batch(3, [0, 0, 0, 1, 1, 1, 2, 2, 2], 5, 3, 0.7, square=True),
    ],
}
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer.json"), "w") as f:
    json.dump(fixture, f, separators=(",", ":"))
    f.write("\n")
