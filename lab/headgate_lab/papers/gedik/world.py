# mypy: allow-untyped-defs, allow-untyped-calls
"""The paper's workload: Zipf keys on a ring, and what its tail does there (Gedik, section 5.1).

Keys are the ranks 0..D-1 with frequency proportional to 1/(rank+1)^z. The load that the ring alone
puts on each channel, and what moves from N-1 to N channels, depend on domain, skew and ring seed
only, so they are computed once (`Census`) and corrected for pinned keys afterwards. That makes a
trial cost what its pins cost, for 10^8 keys too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from headgate.compiled import compiled
from headgate.routing.balance import Floats, Ints
from headgate.routing.key_hash import hash_ints
from headgate.routing.lossy_counting import LossyCounter
from headgate.routing.partitioning import uniform_lookup
from headgate.routing.ring import HashRing

_CHUNK = 1 << 20


@dataclass(frozen=True)
class Census:
    """Loads by resource function (C, L, Q) on N channels, and the mass that moved from N-1, for every key."""

    loads: Floats  # (3, N)
    moved: Floats  # (3,)


@dataclass
class World:
    """One workload: a domain of keys with Zipf frequencies. Rings and censuses are cached."""

    domain: int = 10**6
    skew: float = 1.0
    _rings: dict[tuple[int, int], HashRing] = field(default_factory=dict, repr=False)
    _censuses: dict[tuple[str, int, int], Census] = field(default_factory=dict, repr=False)
    _estimates: dict[tuple[int, int, float], tuple[Ints, Floats, int]] = field(
        default_factory=dict, repr=False
    )

    @cached_property
    def norm(self) -> float:
        """The sum of 1/k^z over the domain."""
        return float(sum(self._weights(at).sum() for at in range(0, self.domain, _CHUNK)))

    @cached_property
    def totals(self) -> Floats:
        """The sum of each resource function over all keys."""
        squares = sum(float(np.square(self._weights(at)).sum()) for at in range(0, self.domain, _CHUNK))
        return np.array([float(self.domain), 1.0, squares / self.norm**2])

    def frequency(self, ranks: npt.ArrayLike) -> Floats:
        """Return the exact frequencies of the given ranks."""
        f: Floats = (np.asarray(ranks, dtype=np.float64) + 1.0) ** -self.skew / self.norm
        return f

    def above(self, threshold: float) -> Ints:
        """Return the ranks of all keys at or above a frequency."""
        low, high = 0, self.domain
        while low < high:
            middle = (low + high) // 2
            if float(self.frequency([middle])[0]) >= threshold:
                low = middle + 1
            else:
                high = middle
        return np.arange(low, dtype=np.int64)

    def ring(self, seed: int, channels: int) -> HashRing:
        """Return the ring of a seed."""
        if (seed, channels) not in self._rings:
            self._rings[seed, channels] = HashRing.uniform(channels, seed=seed)
        return self._rings[seed, channels]

    def census(self, kind: str, seed: int, channels: int) -> Census:
        """Return loads and moved mass of every key under ``kind``: ring, modulo, or random."""
        if (kind, seed, channels) not in self._censuses:
            self._censuses[kind, seed, channels] = self._count(kind, seed, channels)
        return self._censuses[kind, seed, channels]

    def _count(self, kind: str, seed: int, channels: int) -> Census:
        loads, moved = np.zeros((3, channels)), np.zeros(3)
        for at in range(0, self.domain, _CHUNK):
            ranks = np.arange(at, min(at + _CHUNK, self.domain))
            f = self._weights(at) / self.norm
            now = self.channels_of(kind, seed, channels, ranks)
            changed = (
                now != self.channels_of(kind, seed, channels - 1, ranks)
                if channels > 1
                else np.zeros(0, bool)
            )
            for row, weight in enumerate((None, f, f * f)):
                loads[row] += np.bincount(now, weights=weight, minlength=channels)
                if channels > 1:
                    moved[row] += changed.sum() if weight is None else weight[changed].sum()
        return Census(loads, moved)

    def channels_of(self, kind: str, seed: int, channels: int, ranks: Ints) -> npt.NDArray[np.int16]:
        if kind == "ring":
            return self.ring(seed, channels).lookup_ints(ranks)
        if kind == "modulo":
            return uniform_lookup(ranks, channels)
        if kind == "random":
            return uniform_lookup(_scramble(ranks, seed), channels)
        raise ValueError(f"kind is ring, modulo or random; got {kind!r}")

    def _weights(self, at: int) -> Floats:
        ranks = np.arange(at + 1, min(at + _CHUNK, self.domain) + 1, dtype=np.float64)
        w: Floats = 1.0 / ranks if self.skew == 1.0 else ranks**-self.skew
        return w

    def sample(self, rows: int, *, seed: int) -> Ints:
        """Return a stream of ``rows`` keys drawn from the workload."""
        out = np.empty(rows, dtype=np.int64)
        _sample(out, float(self.domain), self.skew, np.uint64(seed))
        return out

    def estimate(self, seed: int, period: int, delta: float) -> tuple[Ints, Floats, int]:
        """Return keys, counted frequencies and entries held, from a lossy counter
        over a sampled window.

        The window is as many rows as there are keys (at most 10^7), drawn afresh for each period;
        epsilon = 0.1 delta.
        """
        if (seed, period, delta) not in self._estimates:
            rows = min(self.domain, 10**7)
            counter = LossyCounter(epsilon=0.1 * delta)
            state = np.uint64((seed * 1_000_003 + period * 7919 + 1) & 0xFFFFFFFF)
            for _ in range(0, rows, _CHUNK):
                sample = np.empty(min(_CHUNK, rows - counter.items), dtype=np.int64)
                state = np.uint64(_sample(sample, float(self.domain), self.skew, state))
                counter.add(sample)
            keys, f = counter.frequencies(delta)
            self._estimates[seed, period, delta] = keys, f, len(counter)
        return self._estimates[seed, period, delta]


def _scramble(ranks: Ints, seed: int) -> Ints:
    return hash_ints(ranks, seed=1000 + seed) & np.int64(2**62 - 1)


@compiled
def _next(state):
    """One step of splitmix64: a new state and a uniform number in [0, 1)."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return state, np.float64(z >> np.uint64(11)) / 9007199254740992.0


@compiled
def _area(x, skew):
    """Integral of t^-skew from 1 to x."""
    if abs(skew - 1.0) < 1e-9:
        return np.log(x)
    return (x ** (1.0 - skew) - 1.0) / (1.0 - skew)


@compiled
def _area_inverse(y, skew):
    if abs(skew - 1.0) < 1e-9:
        return np.exp(y)
    return (1.0 + y * (1.0 - skew)) ** (1.0 / (1.0 - skew))


@compiled
def _sample(out, domain, skew, state):
    """Fill ``out`` with Zipf ranks (0-based) by rejection-inversion (Hörmann and Derflinger
    1996): exact, no table.
    """
    first = _area(1.5, skew) - 1.0
    last = _area(domain + 0.5, skew)
    shortcut = 2.0 - _area_inverse(_area(2.5, skew) - 2.0**-skew, skew)
    for i in range(out.shape[0]):
        while True:
            state, uniform = _next(state)
            y = last + uniform * (first - last)
            x = _area_inverse(y, skew)
            k = np.floor(x + 0.5)
            k = min(max(k, 1.0), domain)
            if k - x <= shortcut or y >= _area(k + 0.5, skew) - k**-skew:
                out[i] = np.int64(k) - 1
                break
    return state
