"""What balance and migration mean in numbers (Gedik, sections 3.1, 3.4, 4.1.3, 4.2.1, 4.3).

Formulas, with corrections where the paper has errors (PART-E...):

* load of a channel        L_k(i) = sum of beta_k(f(d)) over its keys (Eq. 1, 3, 5; PART-E1: no extra f)
* imbalance                r_k = max L_k / min L_k, b_k = r_k / alpha_k, b = (b_s b_c b_n)^(1/3) (Eq. 2, 11)
* migration                m = (state of moved keys) / (state / N) (Eq. 9, 10, 12)
* allowed deviation        theta = (alpha - 1) / (1 + alpha / (N - 1)) (Eq. 15)
* tracking threshold       delta (Eq. 17) and its filter for quadratic resources (PART-E4)
* penalties of a builder   rho (Eq. 19, 20; constants omitted, PART-26) and gamma (Eq. 18)

Special cases: with N = 1 there is nothing to balance (r = 1, theta = 0). An empty channel makes r
infinite, but rho stays finite. A resource with a constant function balances by itself, so it affects
neither delta nor rho.

Not here: the builders (`builders`), which compute rho and gamma incrementally; these are the
slow, obvious forms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

RHO_FLOOR = 1e-9
"""The smallest rho of one resource: a zero would hide the others in the geometric mean (PART-E13)."""


class ResourceFunction(Enum):
    """How a key's use of a resource grows with its frequency."""

    CONSTANT = "C"
    LINEAR = "L"
    QUADRATIC = "Q"

    def __call__(self, frequency: npt.ArrayLike) -> Floats:
        """Return beta(frequency).

        >>> ResourceFunction.QUADRATIC([0.5, 0.1]).tolist()
        [0.25, 0.010000000000000002]
        """
        x = np.asarray(frequency, dtype=np.float64)
        if self is ResourceFunction.CONSTANT:
            return np.ones_like(x)
        return x.copy() if self is ResourceFunction.LINEAR else x * x


@dataclass(frozen=True)
class Resources:
    """The resource functions of an operator: state, computation, communication.

    The state of a time window is linear in the frequency, that of a count window constant. Comparing each
    row with its window costs quadratic computation, an incremental update per row linear computation. The
    paper writes them as three letters.

    >>> Resources.parse("LQL").computation
    <ResourceFunction.QUADRATIC: 'Q'>
    """

    state: ResourceFunction = ResourceFunction.LINEAR
    computation: ResourceFunction = ResourceFunction.CONSTANT
    communication: ResourceFunction = ResourceFunction.LINEAR

    @classmethod
    def parse(cls, letters: str) -> Resources:
        """Read the paper's notation: three letters of C, L and Q for state, computation, communication."""
        if len(letters) != 3 or set(letters.upper()) - set("CLQ"):
            raise ValueError(f"resources are three letters of C, L, Q such as 'LCL', got {letters!r}")
        return cls(*(ResourceFunction(letter) for letter in letters.upper()))

    @property
    def functions(self) -> tuple[ResourceFunction, ResourceFunction, ResourceFunction]:
        """The three functions in the paper's order."""
        return (self.state, self.computation, self.communication)

    @property
    def balanced(self) -> tuple[int, ...]:
        """Indices of the resources that rho includes: those that are not constant, or all if all are."""
        chosen = tuple(k for k, f in enumerate(self.functions) if f is not ResourceFunction.CONSTANT)
        return chosen or (0, 1, 2)

    def loads(self, frequency: npt.ArrayLike) -> Floats:
        """Return the loads of keys as an array of shape (3, keys)."""
        return np.stack([function(frequency) for function in self.functions])

    def __str__(self) -> str:
        """Return the three letters."""
        return "".join(function.value for function in self.functions)


class Utility(Enum):
    """How balance and migration penalties are combined into one number; lower is better (section 4.3).

    The paper does not give the base of the logarithm: APLM and ATLM have e, APLM10 and ATLM10 have 10.
    """

    A = 0
    APM = 1
    APLM = 2
    ATM = 3
    ATLM = 4
    APLM10 = 5
    ATLM10 = 6

    def __call__(self, rho: float, gamma: float) -> float:
        """Return U(rho, gamma).

        >>> Utility.APM(1.5, 0.5)
        2.0
        """
        if self is Utility.A:
            return rho
        if self is Utility.APM:
            return rho + gamma
        if self is Utility.APLM:
            return rho + math.log1p(gamma)
        if self is Utility.APLM10:
            return rho + math.log10(1 + gamma)
        if self is Utility.ATLM10:
            return rho * (1 + math.log10(1 + gamma))
        return rho * (1 + gamma) if self is Utility.ATM else rho * (1 + math.log1p(gamma))


def theta(alpha: float, channels: int) -> float:
    """Return the largest deviation from the mean load that alpha allows (Eq. 15); 0 for one channel.

    >>> round(theta(1.2, 10), 5)
    0.17647
    """
    if alpha < 1:
        raise ValueError(f"alpha is a ratio of loads, at least 1; got {alpha}")
    if channels < 1:
        raise ValueError(f"channels must be at least 1, got {channels}")
    return 0.0 if channels == 1 else (alpha - 1) / (1 + alpha / (channels - 1))


def alpha_for_utilization(utilization: float) -> float:
    """Return the alpha that keeps every channel at least this busy when one is saturated.

    >>> round(alpha_for_utilization(0.9), 2)
    1.11
    """
    if not 0 < utilization <= 1:
        raise ValueError(f"utilization must lie in (0, 1], got {utilization}")
    return 1 / utilization


def alpha_for_capacity(total: float, *, capacity: float, channels: int) -> float:
    """Return the alpha that keeps every channel within its capacity.

    >>> round(alpha_for_capacity(10, capacity=3, channels=4), 4)
    1.2857
    """
    if not total / channels < capacity < total:
        raise ValueError(
            f"capacity must lie between {total / channels} (a fair share) and {total}, got {capacity}"
        )
    return (channels - 1) * capacity / (total - capacity)


def alphas(alpha: float | Sequence[float]) -> tuple[float, float, float]:
    """Return one alpha for each resource; a single number stands for all three."""
    values = (float(alpha),) * 3 if isinstance(alpha, int | float) else tuple(float(a) for a in alpha)
    if len(values) != 3 or min(values) < 1:
        raise ValueError(f"alpha is one number or three, each at least 1; got {alpha}")
    return (values[0], values[1], values[2])


def tracking_threshold(
    resources: Resources, channels: int, *, alpha: float | Sequence[float], sigma: float, domain: int
) -> float:
    """Return delta, the frequency from which a key is worth tracking (Eq. 17); 1 if no key is.

    >>> round(tracking_threshold(Resources.parse("LCL"), 10, alpha=1.2, sigma=0.1, domain=10**6), 7)
    0.0017647
    """
    if not 0 < sigma <= 1:
        raise ValueError(f"sigma must lie in (0, 1], got {sigma}")
    if domain < 1:
        raise ValueError(f"domain is a number of keys, at least 1; got {domain}")
    delta = 1.0
    for function, a in zip(resources.functions, alphas(alpha), strict=True):
        slack = sigma * theta(a, channels) / channels
        if channels == 1 or function is ResourceFunction.CONSTANT:
            continue
        delta = min(delta, slack if function is ResourceFunction.LINEAR else math.sqrt(slack / domain))
    return delta


def pinning_threshold(
    frequency: Floats,
    resources: Resources,
    channels: int,
    *,
    alpha: float | Sequence[float],
    sigma: float,
    domain: int,
) -> float:
    """Return delta', the threshold after the filter of section 4.1.3.

    ``frequency`` has the frequencies of all tracked keys. The low delta of a quadratic resource assumes
    that all keys are equally frequent. When the tracked keys are known, the load is known better (and
    is larger), so fewer keys need a pin. Linear resources keep their delta.
    """
    delta = 1.0
    rest = max(domain - frequency.shape[0], 0)
    untracked = max(0.0, 1.0 - float(frequency.sum()))
    for function, a in zip(resources.functions, alphas(alpha), strict=True):
        slack = sigma * theta(a, channels) / channels
        if channels == 1 or function is ResourceFunction.CONSTANT:
            continue
        if function is ResourceFunction.LINEAR:
            delta = min(delta, slack)
        else:
            load = float(np.square(frequency).sum()) + (untracked * untracked / rest if rest else 0.0)
            delta = min(delta, math.sqrt(slack * load))
    return delta


def channel_loads(loads: Floats, channel: npt.ArrayLike, channels: int) -> Floats:
    """Sum item loads of shape (resources, items) into loads of shape (resources, channels)."""
    where = np.asarray(channel, dtype=np.int64)
    return np.stack([np.bincount(where, weights=row, minlength=channels) for row in np.atleast_2d(loads)])


def imbalance_ratios(loads: Floats) -> Floats:
    """Return r_k = max / min of each row; infinite where a channel is empty, 1 where all are."""
    top, bottom = loads.max(axis=1), loads.min(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(bottom > 0, top / bottom, np.inf)
    return np.where(top > 0, ratio, 1.0)


def relative_imbalance(loads: Floats, alpha: float | Sequence[float]) -> tuple[float, Floats]:
    """Return b and the three b_k (Eq. 11).

    >>> relative_imbalance(np.array([[12.0, 10.0]] * 3), 1.2)[0]
    1.0
    """
    each = imbalance_ratios(loads) / np.asarray(alphas(alpha))
    return float(np.cbrt(each.prod())), each


def migration(state: Floats, before: npt.ArrayLike, after: npt.ArrayLike) -> float:
    """Return M, the state of all keys whose channel changed (Eq. 9)."""
    return float(state[np.asarray(before) != np.asarray(after)].sum())


def relative_migration(moved: float, total_state: float, channels: int) -> float:
    """Return m = M / (state / N) (Eq. 12); 0 when there is no state.

    ``channels`` is the new number of channels. When channels are removed, the ideal is the share of a
    removed channel, so give the old number (PART-E16).
    """
    return moved * channels / total_state if total_state > 0 else 0.0


def balance_penalty(
    loads: Floats,
    resources: Resources,
    alpha: float | Sequence[float],
    *,
    mean: Floats | None = None,
    thirds: bool = False,
) -> float:
    """Return rho (Eq. 19, 20) of channel loads (3, N): constants omitted, each resource floored.

    ``mean`` is the fair load of each resource, if it is not the mean of ``loads`` (channels of unequal
    speed). With ``thirds`` the exponent is 1/3 as printed, also if fewer than three resources count.
    """
    channels = loads.shape[1]
    chosen = resources.balanced
    average = loads.mean(axis=1) if mean is None else mean
    product = 1.0
    for k in chosen:
        allowed = theta(alphas(alpha)[k], channels) * float(average[k])
        spread = float(loads[k].max() - loads[k].min())
        product *= max(spread / allowed, RHO_FLOOR) if allowed > 0 else RHO_FLOOR
    return float(product ** (1 / (3 if thirds else len(chosen))))


def migration_penalty(moved_state: float, considered_state: float, channels: int) -> float:
    """Return gamma (Eq. 18): the state moved, divided by a fair share of the state of all items considered."""
    return moved_state * channels / considered_state if considered_state > 0 else 0.0
