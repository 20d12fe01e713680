"""The rule cos-orth/lin-ms/cir as a PyTorch loss: loss = Surgery()(embeddings, labels); loss.backward()

embeddings are [B, D], labels integers [B]. The gradient at the L2-normalized embeddings f is composed, see Xuan and
Pless, "Dissecting the impact of different loss functions with gradient surgery". Each anchor a, with its nearest
positive p and negative n by S = f f^T, adds T P+ e_p at p, T P- e_n at n and T (P+ e_ap + P- e_an) at a: a mean.

    e_p = -f_a,  e_n = f_a,  e_ap = -f_p,  e_an = f_n
    e_n and e_an are then projected to be orthogonal to u = (f_a - f_p) / |f_a - f_p|, and of length 1
    P+ = (1-mean(Sap-Rap, 0))*(1-Sap)
    P- = (1+mean(San-Ran, 0))*San
    mean(x, y): the mean over other positives with Rap < San + eps, or negatives with Ran > min Sap - eps, else y
    T = 1/(1+exp(tau*(Sap*(2-Sap)-pow(San, 2))))

pytorch-metric-learning takes it for a loss, and a miner's pairs for indices_tuple. Before it is put into a
CrossBatchMemory: first known = CrossBatchMemory.supported_losses() + ["Surgery"]; CrossBatchMemory.supported_losses =
lambda: known. A memory, ref_emb [R, D] and ref_labels [R], replaces the batch; indices_tuple has no image with itself.
DDP: DistributedLossWrapper(Surgery()) gives the gradient of the whole batch; with efficient=True it gives another. By
hand: all_gather rows and labels, put your own rows in place of their copy, multiply the loss by the processes.
"""
import torch
from torch import amin, exp, where
try:
    from pytorch_metric_learning.losses import BaseMetricLossFunction as Loss
except ImportError:
    Loss = torch.nn.Module


def normalize(x):  # A row of length zero has no direction and gets no gradient.
    x = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    length = x.norm(dim=1, keepdim=True)
    return x * ((length > 1e-12) / length.clamp(min=1e-12))


def unit(x):  # A row too short to have a direction becomes zero.
    length = x.norm(dim=1, keepdim=True)
    return x / length.masked_fill(length <= 1e-5, torch.inf)


def mean(x, others, empty):  # Of each anchor's others; empty if there are none.
    count = others.sum(1)
    return where(count > 0, where(others, x, 0).sum(1) / count.clip(1), empty)


class Surgery(Loss):
    def __init__(self, tau=1.0, eps=0.1):
        super().__init__()
        self.tau, self.eps = tau, eps

    def forward(self, embeddings, labels, indices_tuple=None, ref_emb=None, ref_labels=None):
        if embeddings.ndim != 2 or labels.shape != embeddings.shape[:1] or len(labels) == 0:
            raise ValueError(f"want embeddings [B, D] and labels [B], not {[*embeddings.shape]}, {[*labels.shape]}")
        with torch.autocast(embeddings.device.type, enabled=False):
            f = normalize(embeddings)
            r = f if ref_emb is None else normalize(ref_emb)
            g, h, value = self.gradient(f, labels, r, labels if ref_emb is None else ref_labels, indices_tuple)
            loss = (f * g).sum() + (r * h).sum()  # Its gradient is g at f and h at r.
        return value + loss - loss.detach()  # The value is the share of triplets with S_an > S_ap.

    @torch.no_grad()
    def gradient(self, f, labels, r, ref_labels, pairs):
        s, i, j = f @ r.T, torch.arange(len(f), device=f.device), torch.arange(len(r), device=f.device)
        pos, neg = labels[:, None] == ref_labels, labels[:, None] != ref_labels
        if r is f:
            pos.fill_diagonal_(False)
        if pairs is not None:  # (a, p, n), or (a, p, b, n) for positive pairs (a, p) and negative pairs (b, n).
            for mask, a, b in ((pos, pairs[0], pairs[1]), (neg, pairs[-2 if len(pairs) == 4 else 0], pairs[-1])):
                mask &= torch.zeros_like(mask).index_put_((a, b), torch.tensor(True, device=f.device))
        valid = pos.any(1) & neg.any(1)
        p, n = s.masked_fill(~pos, -4).argmax(1), s.masked_fill(~neg, -4).argmax(1)
        s_ap, s_an, f_a, f_p, f_n = s[i, p], s[i, n], f, r[p], r[n]
        e_p, e_n, e_ap, e_an = -f_a, f_a, -f_p, f_n
        u = unit(f_a - f_p)
        e_n, e_an = (unit(v - (v * u).sum(1, keepdims=True) * u) for v in (e_n, e_an))
        near = pos & (s < s_an[:, None] + self.eps) & (j != p[:, None])
        far = neg & (s > amin(where(pos, s, 4), 1)[:, None] - self.eps) & (j != n[:, None])
        w_p = (1 - mean(s_ap[:, None] - s, near, 0)) * (1 - s_ap)
        w_n = (1 + mean(s_an[:, None] - s, far, 0)) * s_an
        t = 1 / (1 + exp(self.tau * (s_ap * (2 - s_ap) - s_an**2)))
        w_p, w_n = ((t * w / valid.sum().clamp(min=1)).masked_fill(~valid, 0)[:, None] for w in (w_p, w_n))
        h = torch.zeros_like(r).index_add_(0, p, w_p * e_p).index_add_(0, n, w_n * e_n)
        return w_p * e_ap + w_n * e_an, h, ((s_an > s_ap) & valid).sum() / valid.sum().clamp(min=1)
