"""Writes anova.json: small unbalanced grids and their analysis of variance by statsmodels, to check stats.Analyze.

    pip install statsmodels==0.14.4 scipy==1.14.1 pandas==2.2.3 numpy==2.1.3 && python anova.py > anova.json

Nothing here shares code with the Go side: models are formulas with patsy's Sum coding, solved by statsmodels' pinv.
"""

import itertools
import json

import numpy as np
import scipy.stats
import statsmodels.formula.api as smf
from scipy.optimize import brentq

FACTORS = ["direction", "pair", "triplet"]
CODED = {f: f"C({f}, Sum)" for f in FACTORS}
TERMS = [c for n in (1, 2) for c in itertools.combinations(FACTORS, n)]


def draw(rng, counts):
    """Runs of a 3 x 2 x 4 grid with counts[cell] runs a cell."""
    runs = []
    effect = {f: rng.normal(size=4) for f in FACTORS}
    both = rng.normal(size=(3, 2))
    for (d, p, t), n in counts.items():
        for _ in range(n):
            y = 70 + 3 * effect["direction"][d] + 2 * effect["pair"][p] + effect["triplet"][t] + both[d, p] + rng.normal()
            runs.append({"direction": f"d{d}", "pair": f"p{p}", "triplet": f"t{t}", "value": round(float(y), 4)})
    return runs


def fit(runs, terms):
    import pandas as pd

    formula = "value ~ " + " + ".join(":".join(CODED[f] for f in t) for t in terms)
    return smf.ols(formula, pd.DataFrame(runs)).fit()  # pinv: gaps do no harm to the fitted values.


def rank(model):
    return int(np.linalg.matrix_rank(model.model.exog))


def interval(f, d1, d2, n):
    def bound(p):
        g = lambda l: (scipy.stats.ncf.cdf(f, d1, d2, l) if l > 0 else scipy.stats.f.cdf(f, d1, d2)) - p
        return 0.0 if g(0) <= 0 else brentq(g, 0, 1e5, xtol=1e-10)

    return [l / (l + n) for l in (bound(0.975), bound(0.025))]


def analyse(runs):
    n = len(runs)
    full = fit(runs, TERMS)
    cells = {}
    for r in runs:
        cells.setdefault((r["direction"], r["pair"], r["triplet"]), []).append(r["value"])
    pure = sum(float(np.sum((np.array(v) - np.mean(v)) ** 2)) for v in cells.values())
    df = n - len(cells)
    error, error_df = (pure, df) if df else (full.ssr, n - rank(full))
    out = {"runs": runs, "error": {"ss": error, "df": error_df}, "effects": []}
    for term in TERMS:
        others = [t for t in TERMS if not set(term) <= set(t)]
        without, with_ = fit(runs, others), fit(runs, others + [term])
        out["effects"].append({"ss": without.ssr - with_.ssr, "df": rank(with_) - rank(without)})
    if df:
        out["effects"].append({"ss": full.ssr - pure, "df": n - rank(full) - df})
    for e in out["effects"]:
        if e["df"]:
            f = e["ss"] / e["df"] / (error / error_df)
            e.update(f=f, p=float(scipy.stats.f.sf(f, e["df"], error_df)), interval=interval(f, e["df"], error_df, n))
    out["margins"] = margins(runs, full if rank(full) == full.model.exog.shape[1] else fit(runs, TERMS[:3]))
    return out


def margins(runs, model):
    """Marginal means as means of predictions on the whole grid, with standard errors from the covariance."""
    import pandas as pd
    from patsy import dmatrix

    levels = {f: sorted({r[f] for r in runs}) for f in FACTORS}
    grid = pd.DataFrame(list(itertools.product(*levels.values())), columns=FACTORS)
    x = np.asarray(dmatrix(model.model.data.design_info, grid))
    out = []
    for f in FACTORS:
        for level in levels[f]:
            mean = x[(grid[f] == level).to_numpy()].mean(axis=0)
            # Twice the least-squares problem by numpy, not statsmodels' own: its degrees of freedom are those of the rank.
            se = float(np.sqrt(mean @ np.linalg.pinv(model.model.exog.T @ model.model.exog) @ mean * model.ssr / (len(runs) - rank(model))))
            out.append({"factor": f, "level": level, "mean": float(mean @ model.params), "se": se})
    return out


def main():
    rng = np.random.default_rng(7)
    cells = list(itertools.product(range(3), range(2), range(4)))
    print(json.dumps({
        "unbalanced, all cells": analyse(draw(rng, {c: 1 + int(rng.integers(3)) for c in cells})),
        "one run a cell": analyse(draw(rng, {c: 1 for c in cells})),
        "gaps, some cells with more runs": analyse(draw(rng, {c: 1 + i % 2 for i, c in enumerate(cells) if i not in (1, 6, 11, 12, 21)})),
        # One part varied at a time, and two together once: most of the interactions cannot be told.
        "one at a time": analyse(draw(rng, {c: 2 for c in cells if c[1:] == (0, 0) or c[0] == 0 and c[2] == 0 or c[:1] == (0,) and c[1] < 2})),
    }, indent=1))


main()
