"""The rule cos-orth/lin-ms/cir as a JAX loss: jax.value_and_grad(lambda w: Surgery()(network(w, images), labels))(w)

embeddings are [B, D], labels integers [B]. The gradient at the L2-normalized embeddings f is composed, see Xuan and
Pless, "Dissecting the impact of different loss functions with gradient surgery". Each anchor a, with its nearest
positive p and negative n by S = f f^T, adds T P+ e_p at p, T P- e_n at n and T (P+ e_ap + P- e_an) at a: a mean.

    e_p = -f_a,  e_n = f_a,  e_ap = -f_p,  e_an = f_n
    e_n and e_an are then projected to be orthogonal to u = (f_a - f_p) / |f_a - f_p|, and of length 1
    P+ = (1-mean(Sap-Rap, 0))*(1-Sap)
    P- = (1+mean(San-Ran, 0))*San
    mean(x, y): the mean over other positives with Rap < San + eps, or negatives with Ran > min Sap - eps, else y
    T = 1/(1+exp(tau*(Sap*(2-Sap)-pow(San, 2))))

Under jax.jit a batch may be sharded over a jax.sharding.Mesh, whose axes are automatic: anchors find their pairs in all
of it. ref_emb [R, D] and ref_labels [R], a memory, are positives and negatives in place of the batch.
"""
import jax
import jax.numpy as jnp
from jax.numpy import amin, exp, where


def normalize(x):  # A row of length zero has no direction and gets no gradient.
    x = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    square = (x * x).sum(1, keepdims=True)
    return jnp.where(square > 1e-24, x / jnp.sqrt(jnp.where(square > 1e-24, square, 1)), 0)


def unit(x):  # A row too short to have a direction becomes zero.
    length = jnp.sqrt((x * x).sum(1, keepdims=True))
    return x / jnp.where(length > 1e-5, length, jnp.inf)


def mean(x, others, empty):  # Of each anchor's others; empty if there are none.
    count = others.sum(1)
    return where(count > 0, where(others, x, 0).sum(1) / count.clip(1), empty)


class Surgery:
    def __init__(self, tau=1.0, eps=0.1):
        self.tau, self.eps = tau, eps

    def __call__(self, embeddings, labels, ref_emb=None, ref_labels=None):
        if embeddings.ndim != 2 or labels.shape != embeddings.shape[:1] or len(labels) == 0:
            raise ValueError(f"want embeddings [B, D] and labels [B], not {[*embeddings.shape]}, {[*labels.shape]}")
        f = normalize(embeddings)
        r = f if ref_emb is None else normalize(ref_emb)
        stopped = jax.lax.stop_gradient((f, r))
        g, h, value = self.gradient(stopped[0], labels, stopped[1], labels if ref_emb is None else ref_labels, r is f)
        loss = (f * g).sum() + (r * h).sum()  # Its gradient is g at f and h at r.
        return value + loss - jax.lax.stop_gradient(loss)  # The value is the share of triplets with S_an > S_ap.

    def gradient(self, f, labels, r, ref_labels, same):
        s, i, j = jnp.matmul(f, r.T, precision="highest"), jnp.arange(len(f)), jnp.arange(len(r))
        pos, neg = labels[:, None] == ref_labels, labels[:, None] != ref_labels
        if same:
            pos &= i[:, None] != j
        valid = pos.any(1) & neg.any(1)
        p, n = jnp.where(pos, s, -4).argmax(1), jnp.where(neg, s, -4).argmax(1)
        s_ap, s_an, f_a, f_p, f_n = s[i, p], s[i, n], f, r[p], r[n]
        e_p, e_n, e_ap, e_an = -f_a, f_a, -f_p, f_n
        u = unit(f_a - f_p)
        e_n, e_an = (unit(v - (v * u).sum(1, keepdims=True) * u) for v in (e_n, e_an))
        near = pos & (s < s_an[:, None] + self.eps) & (j != p[:, None])
        far = neg & (s > amin(where(pos, s, 4), 1)[:, None] - self.eps) & (j != n[:, None])
        w_p = (1 - mean(s_ap[:, None] - s, near, 0)) * (1 - s_ap)
        w_n = (1 + mean(s_an[:, None] - s, far, 0)) * s_an
        t = 1 / (1 + exp(self.tau * (s_ap * (2 - s_ap) - s_an**2)))
        w_p, w_n = (jnp.where(valid, t * w / valid.sum().clip(1), 0)[:, None] for w in (w_p, w_n))
        h = jnp.zeros_like(r).at[p].add(w_p * e_p).at[n].add(w_n * e_n)
        return w_p * e_ap + w_n * e_an, h, ((s_an > s_ap) & valid).sum() / valid.sum().clip(1)
