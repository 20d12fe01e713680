"""Writes autograd.json: gradients of PyTorch, as a user saves them, for dissect.FromAutograd to take apart.

    python autograd.py    # with torch and pytorch-metric-learning; beside this file

They are of pytorch-metric-learning's losses on cosine similarities and of a loss written by hand, in float32, at the
embeddings as given ("raw") and at the similarities ("similarity"). There are fewer embeddings than dimensions.
"""

import json
import os

import pytorch_metric_learning
import torch
from pytorch_metric_learning import distances, losses

torch.manual_seed(1)


class Cosine(distances.CosineSimilarity):
    def compute_mat(self, *x):
        self.S = super().compute_mat(*x)
        self.S.retain_grad()
        return self.S


def by_hand(x, labels, cosine):
    s = cosine(x)
    same = labels[:, None] == labels[None, :]
    own = same & ~torch.eye(len(labels), dtype=torch.bool)
    hardest = s.masked_fill(same, -2).max(1).values
    easiest = s.masked_fill(~own, -2).max(1).values
    return torch.nn.functional.softplus(8 * (hardest - easiest)).mean() + 0.1 * s[own].sub(0.9).square().mean()


LOSSES = {
    "ms": lambda x, labels, d: losses.MultiSimilarityLoss(distance=d)(x, labels),
    "circle": lambda x, labels, d: losses.CircleLoss(distance=d)(x, labels),
    "info-nce": lambda x, labels, d: losses.NTXentLoss(distance=d)(x, labels),
    "sup-con": lambda x, labels, d: losses.SupConLoss(distance=d)(x, labels),
    "by hand": by_hand,
}

labels = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3])
embeddings = torch.randn(4, 16)[labels] + torch.randn(12, 16)
out = []
for name, loss in LOSSES.items():
    e, cosine = embeddings.detach().requires_grad_(), Cosine()
    loss(e, labels, cosine).backward()
    out.append({"name": name, "raw": e.grad.flatten().tolist(), "similarity": cosine.S.grad.flatten().tolist()})


def rounded(x):
    if isinstance(x, float):
        return float(f"{x:.9g}")
    if isinstance(x, list):
        return [rounded(v) for v in x]
    return {k: rounded(v) for k, v in x.items()} if isinstance(x, dict) else x


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "autograd.json"), "w") as f:
    json.dump(rounded({"torch": torch.__version__, "pytorch-metric-learning": pytorch_metric_learning.__version__,
                       "labels": labels.tolist(), "dim": 16, "embeddings": embeddings.flatten().tolist(),
                       "gradients": out}), f)
    f.write("\n")
