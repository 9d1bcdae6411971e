# mypy: allow-untyped-defs, allow-untyped-calls
"""Lossy counting (Manku and Motwani, as in Gedik, section 4.1.2), over a whole stream or a sliding window.

`LossyCounter`: the stream is cut into windows of 1/epsilon items. A new key enters with count 1 and error
i - 1, where i is the current window; when window i closes, keys with count + error <= i are evicted
(PART-E6). `frequent` returns every key more frequent than delta and no key below delta - epsilon, and a
count is too low by at most epsilon * items.

`SlidingLossyCounter`: x counters with staggered starts (Figure 2). Each counts W items, then answers
queries during the next W/(x-1) items, then starts again. The counter that answers has seen between W
and (1 + 1/(x-1)) W items, except during the first W.

These are the paper's structures, kept for the reproduction and for streams that are read a row at a
time. A stage, which groups each batch by key in any case, uses `heavy_keys`. Keys are 64-bit integers:
hash others with `key_hash`.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from headgate.compiled import compiled
from headgate.routing.balance import Floats
from headgate.routing.key_hash import int_keys, mix_int64

_SEED = np.uint64(0)
_ONE = np.uint64(1)


@compiled
def _add(keys, window, slot_key, count, error):
    """Count keys into an open-addressing table (count 0 = free); return how many are new."""
    mask = np.uint64(slot_key.shape[0] - 1)
    fresh = 0
    for key in keys:
        slot = mix_int64(np.uint64(key), _SEED) & mask
        while count[slot] > 0 and slot_key[slot] != key:
            slot = (slot + _ONE) & mask
        if count[slot] == 0:
            slot_key[slot] = key
            error[slot] = window - 1
            fresh += 1
        count[slot] += 1
    return fresh


@compiled
def _reinsert(keys, counts, errors, slot_key, count, error):
    mask = np.uint64(slot_key.shape[0] - 1)
    for i in range(keys.shape[0]):
        slot = mix_int64(np.uint64(keys[i]), _SEED) & mask
        while count[slot] > 0:
            slot = (slot + _ONE) & mask
        slot_key[slot] = keys[i]
        count[slot] = counts[i]
        error[slot] = errors[i]


class LossyCounter:
    """Approximate counts of the frequent keys of a stream, in O((1/epsilon) log(epsilon * items)) space.

    >>> counter = LossyCounter(epsilon=0.1)
    >>> counter.add([7] * 30 + list(range(100, 130)))
    >>> keys, counts = counter.frequent(0.4)
    >>> keys.tolist(), counts.tolist()
    ([7], [30])
    """

    def __init__(self, *, epsilon: float) -> None:
        """Start empty, with windows of ceil(1/epsilon) items."""
        if not 0 < epsilon < 1:
            raise ValueError(f"epsilon must lie in (0, 1), got {epsilon}")
        self.epsilon = epsilon
        self.window_items = math.ceil(1 / epsilon)
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.items = 0
        self._size = 0
        self._allocate(1024)

    def __len__(self) -> int:
        """Return the number of keys held."""
        return self._size

    def add(self, keys: npt.ArrayLike) -> None:
        """Count the keys in order; windows close as they fill."""
        values = int_keys(keys)
        at = 0
        while at < values.shape[0]:
            room = self.window_items - self.items % self.window_items
            part = values[at : at + room]
            self._reserve(self._size + part.shape[0])
            window = self.items // self.window_items + 1
            self._size += int(_add(part, window, self._key, self._count, self._error))
            self.items += part.shape[0]
            at += part.shape[0]
            if part.shape[0] == room:
                self._close(window)

    def entries(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return keys, counts and errors of all held keys, most frequent first, ties by key."""
        used = np.flatnonzero(self._count)
        keys, counts, errors = self._key[used], self._count[used], self._error[used]
        order = np.lexsort((keys, -counts))
        return keys[order], counts[order], errors[order]

    def frequent(self, delta: float) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the keys counted at least (delta - epsilon) * items times, and their counts."""
        keys, counts, _ = self.entries()
        chosen = counts >= (delta - self.epsilon) * self.items
        return keys[chosen], counts[chosen]

    def frequencies(self, delta: float) -> tuple[npt.NDArray[np.int64], Floats]:
        """Return the frequent keys with count / items."""
        keys, counts = self.frequent(delta)
        return keys, counts / max(self.items, 1)

    def _close(self, window: int) -> None:
        used = np.flatnonzero(self._count)
        stay = used[self._count[used] + self._error[used] > window]
        keys, counts, errors = self._key[stay], self._count[stay], self._error[stay]
        self._size = stay.shape[0]
        self._allocate(self._key.shape[0])
        _reinsert(keys, counts, errors, self._key, self._count, self._error)

    def _reserve(self, keys: int) -> None:
        if 2 * keys <= self._key.shape[0]:
            return
        used = np.flatnonzero(self._count)
        old = self._key[used], self._count[used], self._error[used]
        self._allocate(1 << (2 * keys - 1).bit_length())
        _reinsert(*old, self._key, self._count, self._error)

    def _allocate(self, slots: int) -> None:
        self._key = np.zeros(slots, dtype=np.int64)
        self._count = np.zeros(slots, dtype=np.int64)
        self._error = np.zeros(slots, dtype=np.int64)


class SlidingLossyCounter:
    """Lossy counts of about the last W items, from staggered counters over tumbling windows.

    >>> sliding = SlidingLossyCounter(epsilon=0.01, window=1000)
    >>> sliding.add([1] * 2600)
    >>> sliding.serving.items
    1100
    """

    def __init__(self, *, epsilon: float, window: int, counters: int = 3) -> None:
        """Stagger ``counters`` counters by window / (counters - 1) items."""
        if counters < 2:
            raise ValueError(f"at least two counters are needed, because they take turns; got {counters}")
        if window < counters - 1 or window % (counters - 1):
            raise ValueError(f"window {window} must be a positive multiple of counters - 1 = {counters - 1}")
        self.window = window
        self.items = 0
        self._stride = window // (counters - 1)
        self._counters = [LossyCounter(epsilon=epsilon) for _ in range(counters)]

    @property
    def serving(self) -> LossyCounter:
        """The counter that answers queries now: the oldest. During the first W items it has seen fewer."""
        return max(self._counters, key=lambda counter: counter.items)

    def __len__(self) -> int:
        """Return the number of keys held by all counters together."""
        return sum(len(counter) for counter in self._counters)

    def add(self, keys: npt.ArrayLike) -> None:
        """Count the keys in order; a counter starts again when its turn ends."""
        values = int_keys(keys)
        at = 0
        while at < values.shape[0]:
            stride, phase = divmod(self.items, self._stride)
            if phase == 0:  # the counter that begins (or begins again) here
                self._counters[stride % len(self._counters)].clear()
            part = values[at : at + self._stride - phase]
            for number, counter in enumerate(self._counters):
                if number <= stride:
                    counter.add(part)
            self.items += part.shape[0]
            at += part.shape[0]

    def frequent(self, delta: float) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the frequent keys of the serving counter, and their counts."""
        return self.serving.frequent(delta)

    def frequencies(self, delta: float) -> tuple[npt.NDArray[np.int64], Floats]:
        """Return the frequent keys of the serving counter with count / items."""
        return self.serving.frequencies(delta)
