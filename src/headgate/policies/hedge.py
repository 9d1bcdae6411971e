"""Learning from experts whom to trust: AdaHedge (de Rooij, van Erven, Grünwald and Koolen, 2014).

    weight of expert k    w_k ~ exp(-eta (L_k - min L))        L: the sum of its losses so far
    the rate              eta = ln K / D                       D: the sum of the mixability gaps so far
    a step's gap          sum_k w_k l_k + ln(sum_k w_k exp(-eta l_k)) / eta,  at least 0

There is nothing to tune: the rate is as high as the past allows. While one expert is better than all
others the gaps are small and it soon has all of the weight; while none is, the weights stay near each
other. Losses need no bounds and no unit.

Law: for every expert k and every sequence of T losses whose steps span at most S,

    sum of the weighted losses  <=  sum of the losses of k  +  S sqrt(T ln K) + S (4/3 ln K + 2)

and the weights before a step depend on earlier steps only.

`guarded` protects the first expert (D-Prod of Even-Dar, Kearns, Mansour and Wortman, 2008; Sani, Neu and Lazaric,
2014). Its weight b stays 1/2, and a, that of AdaHedge over all others, grows or shrinks with what they save:

    a <- a (1 + r / 2S)        r: loss of the first minus that of the others, S: the largest |r|

Law: over any number of steps the weighted losses exceed those of the first expert by at most 2 ln 2 S. Proof: the
sum a + b grows by the factor 1 + p r / 2S, where p = a / (a + b), and the step saves p r. So the logarithm of the
sum is at most (what was saved) / 2S. It is at least ln b = -ln 2, because b never changes.
"""

from __future__ import annotations

import math

import numpy as np

from headgate.compiled import compiled
from headgate.policies.horizon import Floats

_FAR = 40.0  # so far behind, in exponents, a weight is below the rounding of the others


def weights(losses: Floats) -> Floats:
    """The weights before every step and after the last one, from losses by step and expert.

    Further dimensions in front are learners of their own.

    >>> weights(np.array([[0.0, 1.0], [0.0, 1.0]])).round(3).tolist()
    [[0.5, 0.5], [0.8, 0.2], [0.915, 0.085]]
    """
    *learners, steps, experts = losses.shape
    alone = np.ascontiguousarray(losses, dtype=np.float64).reshape(math.prod(learners), steps, experts)
    return np.asarray(learnt(alone)).reshape(*learners, steps + 1, experts)


def most_regret(losses: Floats) -> float:
    """The bound of the law for these losses."""
    steps, experts = losses.shape
    if not steps or experts < 2:
        return 0.0
    spread = float((losses.max(axis=1) - losses.min(axis=1)).max())
    return spread * float(np.sqrt(steps * np.log(experts)) + 4 / 3 * np.log(experts) + 2)


def guarded(losses: Floats) -> Floats:
    """The weights before every step and after the last one, such that the first expert is hardly ever missed.

    The largest difference S is that of all steps given, so weights of a longer past are made anew.

    >>> guarded(np.array([[0.0, 1.0], [0.0, 1.0]])).round(3).tolist()
    [[0.5, 0.5], [0.667, 0.333], [0.8, 0.2]]
    """
    others = losses[:, 1:]
    trust = weights(others)
    saved = losses[:, 0] - (trust[:-1] * others).sum(axis=1)
    most = float(np.abs(saved).max(initial=0.0))
    grown = np.cumprod(np.concatenate([[1.0], 1 + saved / (2 * most) if most > 0 else np.ones(len(saved))]))
    part = grown / (1 + grown)
    return np.column_stack([1 - part, part[:, None] * trust])


def most_missed(losses: Floats) -> float:
    """The bound of the law of `guarded` for these losses."""
    spread = (losses.max(axis=1) - losses.min(axis=1)).max(initial=0.0)
    return float(2 * np.log(2) * spread)


@compiled
def learnt(losses: Floats) -> Floats:
    """`weights`, compiled; from losses by learner, step and expert."""
    learners, steps, experts = losses.shape
    found = np.empty((learners, steps + 1, experts))
    for learner in range(learners):
        total = np.zeros(experts)
        gaps = 0.0
        for at in range(steps + 1):
            w = found[learner, at]
            rate = np.log(experts) / gaps if gaps > 0 else np.inf
            least, smallest = total.min(), np.inf
            for k in range(experts):
                behind = total[k] - least
                w[k] = 1.0
                if behind > 0:
                    w[k] = np.exp(-rate * behind) if rate * behind < _FAR else 0.0
            w /= w.sum()
            if at == steps:
                break
            mean = 0.0
            for k in range(experts):
                mean += w[k] * losses[learner, at, k]
                if w[k] > 0 and losses[learner, at, k] < smallest:
                    smallest = losses[learner, at, k]
            mixed = smallest
            if gaps > 0:
                kept = 0.0
                for k in range(experts):
                    if w[k] > 0:
                        kept += w[k] * np.exp(-rate * (losses[learner, at, k] - smallest))
                mixed -= np.log(kept) / rate
            gaps += max(0.0, mean - mixed)
            for k in range(experts):
                total[k] += losses[learner, at, k]
    return found
