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
"""

from __future__ import annotations

import numpy as np

from headgate.compiled import compiled
from headgate.policies.horizon import Floats


def weights(losses: Floats) -> Floats:
    """The weights before every step and after the last one, from losses by step and expert.

    >>> weights(np.array([[0.0, 1.0], [0.0, 1.0]])).round(3).tolist()
    [[0.5, 0.5], [1.0, 0.0], [1.0, 0.0]]
    """
    return np.asarray(_weights(np.ascontiguousarray(losses, dtype=np.float64)))


def most_regret(losses: Floats) -> float:
    """The bound of the law for these losses."""
    steps, experts = losses.shape
    if not steps or experts < 2:
        return 0.0
    spread = float((losses.max(axis=1) - losses.min(axis=1)).max())
    return spread * float(np.sqrt(steps * np.log(experts)) + 4 / 3 * np.log(experts) + 2)


@compiled
def _weights(losses: Floats) -> Floats:
    steps, experts = losses.shape
    found = np.empty((steps + 1, experts))
    total = np.zeros(experts)
    gaps = 0.0
    for at in range(steps + 1):
        w = found[at]
        least = total.min()
        for k in range(experts):
            if gaps > 0:
                w[k] = np.exp(-np.log(experts) / gaps * (total[k] - least))
            else:  # an infinite rate: those who never lost
                w[k] = 1.0 if total[k] == least else 0.0
        w /= w.sum()
        if at == steps:
            break
        loss = losses[at]
        mean, smallest = (w * loss).sum(), np.inf
        for k in range(experts):
            if w[k] > 0:
                smallest = min(smallest, loss[k])
        if gaps > 0:
            rate = np.log(experts) / gaps
            mixed = smallest - np.log((w * np.exp(-rate * (loss - smallest))).sum()) / rate
        else:
            mixed = smallest
        gaps += max(0.0, mean - mixed)
        total += loss
    return found
