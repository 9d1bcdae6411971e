"""Shares over a horizon: the optimisation inside the MPC controller (Yfoulis and Gounaris, section IV).

    time of channel j at step i     y_ij = b_ij u_sj + o_j          s = min(i, control), o: what the model misses
    quadratic, the paper's Eq. 2    sum_i |y_i - mean(y_i)|^2  +  sum_s |u_s - u_(s-1)|^2 weighed by R
    linear, the paper's Eq. 1       sum_i max_j(y_ij + move_j |u_sj - u_(s-1)j|), all in seconds, no weights
    both                            every u_s sums to 1, 0 <= u_s <= upper

The paper's misprints are interpreted as follows: the mean is subtracted exactly (its W is wrong for P >
2); there are `control` changes and the first of them is now; the prediction starts from what was
measured, so that a bias is counted once. Subtracting the mean would make the problem dense. With the
mean m_i of every step as a variable, sum_j (y_ij - m_i)^2 is minimal exactly if m_i is the mean, and
the problem stays sparse: 3 ms for 128 channels.

The speeds of channels may differ by a factor of a million, and a solver's tolerance applies to its
variables. So in the quadratic form the unit of time is the time at which all channels would end
together (the mean time would be dominated by the slowest channel), and a variable is a share times the
root of its curvature. Shares are then within 1e-6 of the exact solution (a law; usually 1e-10). The
linear form, whose solver does not converge in such variables, uses the mean time as its unit: its plans
are within 1e-4 of the optimum at a factor of a million.

Not here: where b, R and the cost of a move come from (`mpc`), and how shares become moves of bins (`shares`).
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from headgate.errors import ConfigError, required

Floats: TypeAlias = npt.NDArray[np.float64]

TIDY = 0.05
"""The part of a move's time that counts even if a slower channel hides it: moving bytes is never free."""

_FREE = np.inf
_DEAREST = 1e3  # cap of the cost of moving everything, in mean times; far below it nothing moves already
_TOLERANCES = (1e-12, 1e-9, None)  # tried in this order until the solver succeeds; None is its default
_SLACK = 1e-6  # if the bounds of shares leave no more than this, there is only one solution
_ROUNDING = 1e-9  # bounds equal to the current shares may sum to a little less than 1


@dataclass(frozen=True)
class Horizon:
    """How far to look: `control` steps in which shares may change, `prediction` steps whose times count.

    Shares cannot change after the last predicted step, so `control` is at most `prediction`.
    """

    control: int = 5
    prediction: int = 10

    def __post_init__(self) -> None:
        """Check the settings."""
        if not 1 <= self.control <= self.prediction:
            raise ConfigError(
                f"control={self.control} and prediction={self.prediction}: 1 <= control <= prediction is needed"
            )


DEFAULT = Horizon()


def load_solver() -> tuple[Any, Any]:
    """Return `piqp` and `scipy.sparse`, or raise a `ConfigError` that names their extra.

    They are imported here and not above: that takes a third of a second, which no worker should pay at its start.
    """
    purpose = "model predictive control"
    return required("piqp", purpose), required("scipy.sparse", purpose)


def level(unit_s: Floats, upper: Floats) -> float:
    """The time in which the whole workload can be done if every channel works until then, or up to its bound.

    >>> level(np.array([1.0, 1.0]), np.ones(2)), level(np.array([1.0, 4.0]), np.array([0.5, 1.0]))
    (0.5, 2.0)
    """
    ends = np.maximum(upper, 0.0) * unit_s  # when a channel reaches its bound
    order = np.argsort(ends, kind="stable")
    done, speed = 0.0, float((1 / unit_s).sum())
    for channel in order.tolist():
        time = (1 - done) / speed
        if time <= ends[channel]:
            return time
        done, speed = done + float(upper[channel]), speed - 1 / float(unit_s[channel])
        if speed <= 0:
            break
    return float(ends.max()) or 1.0  # the bounds leave no room for all of it


def least_imbalance(
    unit_s: Floats,
    shares: Floats,
    *,
    weight: Floats | float,
    horizon: Horizon = DEFAULT,
    offset_s: Floats | float = 0.0,
    upper: Floats | float = 1.0,
) -> Floats | None:
    """The planned shares, one row for each control step, that weigh imbalance against change (quadratic).

    `unit_s` is the time that each channel needs for the whole workload (B of the paper), now
    or for each predicted step; `weight` is the diagonal of R in seconds squared. None if no
    shares are within `upper`.

    >>> plan = least_imbalance(np.array([1.0, 2.0, 4.0]), np.full(3, 1 / 3), weight=5.0)
    >>> [round(float(change), 4) for change in plan[0] - 1 / 3]
    [0.1274, 0.0045, -0.1319]
    """
    levels = [level(unit, np.broadcast_to(upper, shares.shape)) for unit in np.atleast_2d(unit_s)]
    together = float(1 / np.mean(1 / np.array(levels)))
    b, offset, scale = _scaled(unit_s, offset_s, horizon, together)
    r = np.broadcast_to(weight, shares.shape) / scale**2
    steps, size = horizon.prediction, len(shares)
    stage = _stage(horizon)
    blocks = np.arange(horizon.control * size).reshape(horizon.control, size)
    means = horizon.control * size + np.arange(steps)
    squares = np.zeros(blocks.shape)
    np.add.at(squares, stage, b**2)
    squares += r
    squares[:-1] += r
    units, mean_unit = np.sqrt(squares), np.sqrt(size)
    cross = -r / (units[1:] * units[:-1])
    linear = np.zeros(blocks.shape)
    np.add.at(linear, stage, b * offset)
    linear[0] -= r * shares
    at = blocks[stage]
    mean_of = np.broadcast_to(means[:, None], at.shape)
    from_mean = -b / (units[stage] * mean_unit)
    hessian = _matrix(
        [
            (blocks, blocks, np.ones(blocks.shape)),
            (blocks[1:], blocks[:-1], cross),
            (blocks[:-1], blocks[1:], cross),
            (at, mean_of, from_mean),
            (mean_of, at, from_mean),
            (means, means, np.ones(steps)),
        ],
        (len(means) + blocks.size, len(means) + blocks.size),
    )
    cost = np.concatenate([(linear / units).ravel(), np.full(steps, -offset.sum() / mean_unit)])
    return _solved(hessian, cost, units, upper, tolerances=_TOLERANCES)


def least_time(
    unit_s: Floats,
    shares: Floats,
    *,
    move_s: Floats | float,
    horizon: Horizon = DEFAULT,
    offset_s: Floats | float = 0.0,
    upper: Floats | float = 1.0,
    tidy: float = TIDY,
) -> Floats | None:
    """The planned shares, one row for each control step, that finish soonest, moves included (linear).

    `move_s` is the time in which a channel gives or takes a share of 1. Nothing moves unless it pays
    off within the horizon, and a part may move later, when a slower channel hides it. None if no
    shares are within `upper`.
    """
    b, offset, scale = _scaled(unit_s, offset_s, horizon, float(unit_s.mean()))
    move = np.minimum(np.broadcast_to(move_s, shares.shape) / scale, _DEAREST)
    steps, size, control = horizon.prediction, len(shares), horizon.control
    layout = _least_time_layout(control, steps, size)
    each = np.broadcast_to(move, (control, size)).ravel()
    limits = layout.filled(np.concatenate([b.ravel(), each, layout.signs]))
    bound = np.zeros(limits.shape[0])
    bound[: steps * size] = np.tile(-offset, steps)
    first = steps * size
    bound[first : first + size] = shares
    first += control * size
    bound[first : first + size] = -shares
    cost = np.concatenate([np.zeros(control * size), tidy * each, np.ones(steps)])
    return _solved(None, cost, np.ones((control, size)), upper, limits=limits, bound=bound)


@dataclass(frozen=True, eq=False)
class _Layout:
    """Where the values of a sparse matrix go, which depends on the problem's size alone."""

    order: npt.NDArray[np.int64]
    matrix: Any
    signs: Floats

    def filled(self, values: Floats) -> Any:
        """The matrix with these values, in the order in which its entries were given."""
        return _with_values(self.matrix, values[self.order])


@lru_cache(maxsize=32)
def _least_time_layout(control: int, steps: int, size: int) -> _Layout:
    """The limits of `least_time`: the times of channels, then the changes of shares up and down.

    Its entries are the channels' times for a share of 1, then what moves take, then `signs`.
    """
    blocks = np.arange(control * size).reshape(control, size)
    moved = blocks + blocks.size
    times = 2 * blocks.size + np.arange(steps)
    rows = np.arange(steps * size).reshape(steps, size)
    up = rows.size + blocks
    down = up + blocks.size
    stage = np.minimum(np.arange(steps), control - 1)
    entries = [
        (rows, blocks[stage], 0.0),
        (rows[:control], moved, 0.0),
        (rows, np.broadcast_to(times[:, None], rows.shape), -1.0),
        (up, blocks, 1.0),
        (up[1:], blocks[:-1], -1.0),
        (up, moved, -1.0),
        (down, blocks, -1.0),
        (down[1:], blocks[:-1], 1.0),
        (down, moved, -1.0),
    ]
    at = np.concatenate([rows_of.ravel() for rows_of, _, _ in entries])
    columns = np.concatenate([columns_of.ravel() for _, columns_of, _ in entries])
    order = np.lexsort((at, columns))
    variables = 2 * blocks.size + steps
    starts = np.searchsorted(columns[order], np.arange(variables + 1)).astype(np.int32)
    signs = np.concatenate([np.full(rows_of.size, sign) for rows_of, _, sign in entries[2:]])
    _, sparse = load_solver()
    inside = (np.zeros(len(order)), at[order].astype(np.int32), starts)
    matrix = sparse.csc_matrix(inside, shape=(rows.size + 2 * blocks.size, variables))
    return _Layout(order, matrix, signs)


def _scaled(
    unit_s: Floats, offset_s: Floats | float, horizon: Horizon, scale: float
) -> tuple[Floats, Floats, float]:
    """Times by predicted step (a vector is constant, a matrix a forecast) and offsets, over `scale`."""
    size = unit_s.shape[-1]
    unit = np.broadcast_to(unit_s / scale, (horizon.prediction, size))
    return unit, np.broadcast_to(offset_s, (size,)) / scale, scale


def _stage(horizon: Horizon) -> npt.NDArray[np.int64]:
    """The control step whose shares are in force in each predicted step."""
    return np.minimum(np.arange(horizon.prediction), horizon.control - 1)


def _with_values(matrix: Any, values: Floats) -> Any:
    """A matrix with other values in the same places, without the checks that make a new one slow."""
    other = copy(matrix)
    other.data = values
    return other


@lru_cache(maxsize=32)
def _zeros(size: int) -> Any:
    """A square matrix of zeros."""
    _, sparse = load_solver()
    return sparse.csc_matrix((size, size))


def _matrix(parts: list[tuple[Any, Any, Any]], shape: tuple[int, int]) -> Any:
    """A sparse matrix from rows, columns and values."""
    _, sparse = load_solver()
    rows, columns, values = (np.concatenate([np.ravel(part[k]) for part in parts]) for k in range(3))
    return sparse.csc_matrix((values, (rows, columns)), shape=shape)


def _solved(
    hessian: Any,
    cost: Floats,
    units: Floats,
    upper: Floats | float,
    *,
    limits: Any = None,
    bound: Floats | None = None,
    tolerances: tuple[float | None, ...] = (None,),
) -> Floats | None:
    """The shares of the solution; the first variables are shares times `units`. No `hessian` is a linear cost.

    The shares of each control step sum to 1.
    """
    control, size = units.shape
    most = np.minimum(np.broadcast_to(upper, (size,)), 1.0)
    if not (most >= 0).all() or most.sum() < 1 - _ROUNDING:
        return None
    if most.sum() <= 1 + _SLACK:  # only one solution, and no interior that a solver needs
        return np.tile(most / most.sum(), (control, 1))
    number = control * size
    least = units.min(axis=1)
    total = _with_values(_sums(control, size, len(cost)), (least[:, None] / units).ravel())
    low, high = np.full(len(cost), -_FREE), np.full(len(cost), _FREE)
    low[:number] = 0.0
    # A bound of 1 follows from the others. It is left open, since the solver needs room between bounds; for the same reason
    # shares that can only be 0 are not variables.
    high[:number] = np.where(most >= 1.0, _FREE, most * units).ravel()
    hessian = _zeros(len(cost)) if hessian is None else hessian
    free = np.flatnonzero(high > 0)
    if len(free) < len(cost):
        total, hessian = total[:, free], hessian[free][:, free]
        limits = None if limits is None else limits[:, free]
    problem = {"A": total, "b": least, "x_l": low[free], "x_u": high[free]}
    if limits is not None:
        problem |= {"G": limits, "h_u": bound}
    for tolerance in tolerances:
        solution = _minimum(hessian, cost[free], problem, tolerance)
        if solution is not None:
            whole = np.zeros(len(cost))
            whole[free] = solution
            shares = np.clip(whole[:number].reshape(control, size) / units, 0.0, most)
            return np.asarray(shares / shares.sum(axis=1, keepdims=True), dtype=np.float64)
    return None


@lru_cache(maxsize=32)
def _sums(control: int, size: int, variables: int) -> Any:
    """The sum of the shares of each control step, without its values."""
    _, sparse = load_solver()
    number = control * size
    starts = np.minimum(np.arange(variables + 1), number).astype(np.int32)
    rows = np.repeat(np.arange(control, dtype=np.int32), size)
    return sparse.csc_matrix((np.zeros(number), rows, starts), shape=(control, variables))


def _minimum(hessian: Any, cost: Floats, problem: dict[str, Any], tolerance: float | None) -> Floats | None:
    """Where the cost is least within the limits; None if it was not found to this tolerance (None: the solver's own)."""
    piqp, _ = load_solver()
    solver = piqp.SparseSolver()
    if tolerance is not None:
        solver.settings.eps_abs = solver.settings.eps_rel = tolerance
        solver.settings.eps_duality_gap_abs = solver.settings.eps_duality_gap_rel = tolerance
    solver.setup(hessian, cost, **problem)
    if solver.solve() != piqp.PIQP_SOLVED:
        return None
    return np.asarray(solver.result.x, dtype=np.float64)
