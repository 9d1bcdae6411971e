"""The quadratic program of shares in fractions, by the active-set method: slow, and exact.

It shares nothing with the policy but the statement of the problem: dense, in shares and seconds, without scaling,
the mean subtracted by a matrix. Its answer is the minimum itself, not a point near it.
"""

from fractions import Fraction

import numpy as np

ZERO, ONE = Fraction(0), Fraction(1)


def exact_shares(unit_s, shares, weight, horizon, *, offset_s=None, upper=None):
    """What `least_imbalance` is to find, one row for each control step."""
    size = len(shares)
    most = [ONE] * size if upper is None else [min(ONE, Fraction(float(u))) for u in upper]
    hessian, slope = _cost(unit_s, shares, weight, horizon, offset_s)
    found = _minimum(hessian, slope, most, horizon.control)
    return np.array([float(x) for x in found]).reshape(horizon.control, size)


def _cost(unit_s, shares, weight, horizon, offset_s):
    """The matrix and the vector of the cost, halved."""
    size, number = len(shares), horizon.control * len(shares)
    offset = [Fraction(float(o)) for o in (np.zeros(size) if offset_s is None else offset_s)]
    r = Fraction(float(weight))
    hessian = [[ZERO] * number for _ in range(number)]
    slope = [ZERO] * number
    for step, row in enumerate(np.broadcast_to(unit_s, (horizon.prediction, size))):
        b, first = [Fraction(float(x)) for x in row], size * min(step, horizon.control - 1)
        for j in range(size):
            for k in range(size):
                less_mean = Fraction(int(j == k)) - Fraction(1, size)
                hessian[first + j][first + k] += b[j] * less_mean * b[k]
                slope[first + j] += b[j] * less_mean * offset[k]
    for i in range(number):
        hessian[i][i] += r
        if i < size:
            slope[i] -= r * Fraction(float(shares[i]))
        else:
            hessian[i - size][i - size] += r
            hessian[i - size][i] -= r
            hessian[i][i - size] -= r
    return hessian, slope


def _minimum(hessian, slope, most, control):
    """From a corner, along the best direction within the bounds that hold, until none of them wants to be left."""
    size, number = len(most), len(slope)
    x = _corner(most) * control
    held = {i: 1 if x[i] else -1 for i in range(number) if x[i] in (ZERO, most[i % size])}
    for step in range(control):  # one share of each step must be free to take what the others give
        of = range(step * size, (step + 1) * size)
        if all(i in held for i in of):
            del held[next(i for i in of if x[i])]
    while True:
        free = [i for i in range(number) if i not in held]
        gradient = [
            sum(h * v for h, v in zip(row, x, strict=True)) + s for row, s in zip(hessian, slope, strict=True)
        ]
        way, price = _best_way(hessian, gradient, free, size, control)
        if not any(way.values()):
            leaving = [i for i in sorted(held) if held[i] * (gradient[i] + price[i // size]) > 0]
            if not leaving:
                return x
            del held[leaving[0]]
            continue
        far, hit = ONE, None
        for i in free:
            room = most[i % size] - x[i] if way[i] > 0 else -x[i]
            if way[i] and room / way[i] < far:
                far, hit = room / way[i], i
        for i in free:
            x[i] += far * way[i]
        if hit is not None:
            held[hit] = 1 if way[hit] > 0 else -1


def _corner(most):
    left, corner = ONE, []
    for u in most:
        corner.append(min(u, left))
        left -= corner[-1]
    assert not left, "no shares are within these bounds"
    return corner


def _best_way(hessian, gradient, free, size, control):
    """The change of the free shares that is best without bounds, every step's sum kept; and what each sum costs."""
    steps = [step for step in range(control) if any(i // size == step for i in free)]
    rows = [[hessian[i][k] for k in free] + [Fraction(int(i // size == s)) for s in steps] for i in free]
    rows += [[Fraction(int(k // size == s)) for k in free] + [ZERO] * len(steps) for s in steps]
    solved = _solved(rows, [-gradient[i] for i in free] + [ZERO] * len(steps))
    price = dict.fromkeys(range(control), ZERO) | dict(zip(steps, solved[len(free) :], strict=True))
    return dict(zip(free, solved, strict=False)), price


def _solved(rows, right):
    """Gauss, in fractions."""
    size = len(rows)
    m = [[*row, value] for row, value in zip(rows, right, strict=True)]
    for k in range(size):
        pivot = next(i for i in range(k, size) if m[i][k])
        m[k], m[pivot] = m[pivot], m[k]
        for i in range(k + 1, size):
            if m[i][k]:
                part = m[i][k] / m[k][k]
                m[i] = [a - part * b for a, b in zip(m[i], m[k], strict=True)]
    x = [ZERO] * size
    for i in reversed(range(size)):
        x[i] = (m[i][size] - sum((m[i][j] * x[j] for j in range(i + 1, size)), ZERO)) / m[i][i]
    return x
