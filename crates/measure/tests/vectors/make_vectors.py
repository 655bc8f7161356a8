#!/usr/bin/env python3
"""Makes the vectors in this folder from independent oracles.

    python3 -m venv venv && venv/bin/pip install numpy scipy statsmodels arch ruptures
    venv/bin/python make_vectors.py

Each file names the versions that made it. Nothing here uses towpath.
"""
import itertools
import json
import math
import pathlib

import arch
import numpy as np
import ruptures
import scipy
import statsmodels
from arch.bootstrap import optimal_block_length
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestIndPower, TTestPower
from statsmodels.stats.weightstats import ttost_ind, ttost_paired

HERE = pathlib.Path(__file__).parent
VERSIONS = {m.__name__: m.__version__ for m in (np, scipy, statsmodels, arch, ruptures)}
rng = np.random.default_rng(20261130)


def put(name, **cases):
    (HERE / f"{name}.json").write_text(json.dumps({"made_with": VERSIONS, **cases}, indent=1) + "\n")


def distributions():
    t = [{"t": t, "df": df, "upper": float(stats.t.sf(t, df)), "both": float(2 * stats.t.sf(abs(t), df))}
         for df in (1, 1.5, 2, 3.7, 5, 10, 30, 84.1, 248.4, 1e4) for t in (-40, -3, -0.5, 0.0, 1e-3, 0.7, 2, 5, 60)]
    quantile = [{"tail": p, "df": df, "t": float(stats.t.isf(p, df))}
                for df in (1, 2, 3.3, 4, 10, 100, 251, 1e5) for p in (0.4, 0.1, 0.05, 0.025, 0.01, 0.0025, 1e-6)]
    noncentral = [{"t": t, "df": df, "delta": d, "cdf": float(stats.nct.cdf(t, df, d))}
                  for df in (1, 2, 4, 9, 18, 60, 400) for d in (0.5, 1.5, 3, 8) for t in (-1, 0.5, 2, 4, 12.7)]
    normal = [{"x": x, "cdf": float(stats.norm.cdf(x))} for x in (-8, -3, -1.96, -0.1, 0, 0.5, 2.3, 6)]
    put("distributions", t=t, quantile=quantile, noncentral=noncentral, normal=normal)


def samples(n_a, n_b, kind):
    if kind == "normal":
        return rng.normal(10, 1, n_a), rng.normal(10.6, 1.7, n_b)
    if kind == "skewed":
        return rng.lognormal(0, 0.5, n_a), rng.lognormal(0.2, 0.4, n_b)
    return rng.integers(1, 6, n_a).astype(float), rng.integers(2, 7, n_b).astype(float)  # ties


def tests():
    independent, paired = [], []
    for kind, (n_a, n_b) in itertools.product(("normal", "skewed", "ties"), ((3, 3), (4, 7), (12, 9), (60, 45))):
        a, b = samples(n_a, n_b, kind)
        welch = stats.ttest_ind(b, a, equal_var=False)
        pooled = stats.ttest_ind(b, a)
        case = {"kind": kind, "a": a.tolist(), "b": b.tolist()}
        for name, test in (("welch", welch), ("pooled", pooled)):
            ci = test.confidence_interval(0.95)
            case[name] = {"t": float(test.statistic), "df": float(test.df), "p": float(test.pvalue),
                          "low": float(ci.low), "high": float(ci.high)}
        case["tost_welch"] = float(ttost_ind(b, a, -1.5, 1.5, usevar="unequal")[0])
        independent.append(case)
        n = min(n_a, n_b)
        x, y = np.abs(a[:n]) + 0.1, np.abs(b[:n]) + 0.1
        case = {"kind": kind, "a": x.tolist(), "b": y.tolist()}
        for name, (u, v) in {"difference": (x, y), "ratio": (np.log(x), np.log(y))}.items():
            test = stats.ttest_rel(v, u)
            ci = test.confidence_interval(0.95)
            case[name] = {"t": float(test.statistic), "df": float(test.df), "p": float(test.pvalue),
                          "low": float(ci.low), "high": float(ci.high),
                          "tost": float(ttost_paired(v, u, -0.8, 0.8)[0])}
        paired.append(case)
    put("tests", independent=independent, paired=paired)


def ranks():
    mw, signs, flips, permutations, shifts = [], [], [], [], []
    for kind, (n_a, n_b) in itertools.product(("normal", "ties"), ((1, 1), (3, 3), (5, 5), (6, 4), (7, 8))):
        a, b = samples(n_a, n_b, kind)
        if kind == "normal":
            test = stats.mannwhitneyu(b, a, method="exact")
            u, p = float(test.statistic), float(test.pvalue)
        else:  # scipy's own exact test knows no ties: enumerate all deals of the mid-ranks
            r = stats.rankdata(np.concatenate([a, b]))
            u = float(r[n_a:].sum() - n_b * (n_b + 1) / 2)
            sums = [sum(c) for c in itertools.combinations(r, n_b)]
            s = r[n_a:].sum()
            low = sum(x <= s + 1e-9 for x in sums) / len(sums)
            high = sum(x >= s - 1e-9 for x in sums) / len(sums)
            p = min(1.0, 2 * min(low, high))
        mw.append({"a": a.tolist(), "b": b.tolist(), "u": u, "p": p, "exact": True})
        if n_a < 2:
            continue
        full = stats.permutation_test((b, a), lambda x, y: np.mean(x) - np.mean(y), n_resamples=np.inf)
        permutations.append({"a": a.tolist(), "b": b.tolist(), "p": min(1.0, float(full.pvalue))})
        shifts.append({"a": a.tolist(), "b": b.tolist(),
                       "shift": float(np.median(np.subtract.outer(b, a).ravel()))})
    for kind in ("normal", "ties"):
        a, b = samples(80, 70, kind)
        test = stats.mannwhitneyu(b, a, method="asymptotic", use_continuity=True)
        mw.append({"a": a.tolist(), "b": b.tolist(), "u": float(test.statistic), "p": float(test.pvalue),
                   "exact": False})
    for above, below in ((0, 0), (1, 0), (5, 0), (6, 0), (7, 2), (10, 10), (40, 25), (300, 260)):
        p = 1.0 if above + below == 0 else float(stats.binomtest(above, above + below).pvalue)
        signs.append({"above": above, "below": below, "p": p})
    for n in (2, 5, 6, 9, 12):
        for scale in (0.0, 0.7):
            d = np.round(rng.normal(scale, 1, n), 1 if scale else 6)
            full = stats.permutation_test((d,), np.mean, permutation_type="samples", n_resamples=np.inf)
            flips.append({"differences": d.tolist(), "p": min(1.0, float(full.pvalue))})
    put("ranks", mann_whitney=mw, sign=signs, sign_flip=flips, permutation=permutations, shift=shifts)


def multiple():
    cases = []
    for n in (1, 2, 6, 48):
        p = np.round(rng.beta(0.5, 3, n), 4)
        cases.append({"p": p.tolist(), "holm": multipletests(p, method="holm")[1].tolist(),
                      "bh": multipletests(p, method="fdr_bh")[1].tolist()})
    put("multiple", cases=cases)


def power():
    unpaired = [{"runs": n, "spread": cv, "effect": e,
                 "power": float(TTestIndPower().power(math.log1p(e) / cv, n, 0.05))}
                for cv in (0.003, 0.01, 0.05) for e in (0.01, 0.05) for n in (2, 3, 6, 17, 64, 394)]
    paired = [{"pairs": n, "spread": sd, "effect": e,
               "power": float(TTestPower().power(math.log1p(e) / sd, n, 0.05))}
              for sd in (0.01, 0.03) for e in (0.005, 0.01, 0.03) for n in (13, 20, 50, 200)]
    # scipy gives up far out
    unpaired, paired = ([c for c in cases if not math.isnan(c["power"])] for cases in (unpaired, paired))
    runs = [{"spread": cv, "effect": e,
             "runs": int(math.ceil(TTestIndPower().solve_power(math.log1p(e) / cv, power=0.8, alpha=0.05)))}
            for cv, e in ((0.01, 0.01), (0.02, 0.01), (0.03, 0.01), (0.05, 0.01), (0.05, 0.05), (0.1, 0.03))]
    put("power", unpaired=unpaired, paired=paired, runs=runs)


def bootstrap():
    bca = []
    for kind, n, statistic in (("normal", 12, "mean"), ("skewed", 20, "mean"), ("skewed", 9, "median"),
                               ("ties", 15, "mean")):
        data = samples(n, 3, kind)[0]
        function = getattr(np, statistic)
        result = stats.bootstrap((data,), function, n_resamples=499, method="BCa", confidence_level=0.95,
                                 random_state=7)
        percentile = stats.bootstrap((data,), function, n_resamples=0, method="percentile",
                                     bootstrap_result=result, confidence_level=0.95)
        bca.append({"data": data.tolist(), "statistic": statistic,
                    "distribution": sorted(result.bootstrap_distribution.tolist()),
                    "bca": [float(x) for x in result.confidence_interval],
                    "percentile": [float(x) for x in percentile.confidence_interval]})
    blocks = []
    for rho, n in ((0.0, 100), (0.5, 400), (0.9, 400), (0.95, 1000), (-0.4, 300)):
        x = np.zeros(n)
        for i in range(1, n):
            x[i] = rho * x[i - 1] + rng.normal()
        x = np.round(x, 4)
        blocks.append({"rho": rho, "series": x.tolist(),
                       "circular": float(optimal_block_length(x)["circular"].iloc[0])})
    put("bootstrap", bca=bca, blocks=blocks)


def drift():
    trends = []
    for slope, n in ((0.0, 6), (0.05, 20), (-0.2, 15), (0.02, 60)):
        x = np.arange(n) * 1.5
        y = np.round(slope * x + rng.normal(0, 0.5, n), 1)
        kendall = stats.kendalltau(x, y, method="asymptotic")
        trends.append({"times": x.tolist(), "values": y.tolist(),
                       "slope": float(stats.theilslopes(y, x)[0]), "p": float(kendall.pvalue)})
    segments = []
    for levels in ((0,), (3, 0), (0, 2, -1), (5, 0, 0.5, 0)):
        x = np.round(np.concatenate([rng.normal(level, 0.4, int(rng.integers(8, 30))) for level in levels]), 4)
        penalty = 4 * 0.16 * math.log(len(x))
        points = ruptures.Pelt(model="l2", min_size=3, jump=1).fit(x).predict(pen=penalty)[:-1]
        segments.append({"values": x.tolist(), "penalty": penalty, "points": [int(p) for p in points]})
    put("drift", trends=trends, segments=segments)


for make in (distributions, tests, ranks, multiple, power, bootstrap, drift):
    make()
