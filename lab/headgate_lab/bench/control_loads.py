"""Loads drawn anew by seed, for controllers that were not tuned to them.

A draw chooses the number of channels, how many of them are perturbed, and of each of these its kind
of load with its own parameters; in half of the draws all perturbed channels have one kind. No kind
is that of the papers (`papers.mpc.load`), except for Poisson jobs, whose lengths are drawn here too.
A load is a number of jobs n, not necessarily whole: a channel works at 1 / (1 + n) of its speed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from headgate.policies.horizon import Floats
from headgate_lab.bench.control_stage import Setting

Draw = np.random.Generator
SIZES = ((3, 150, 32), (6, 150, 32), (12, 150, 16), (32, 100, 16))
"""Channels, batches and bins per channel."""


def steps(rng: Draw, length: int) -> Floats:
    """A level that changes for good at times that nobody knows."""
    changes = rng.random(length) < rng.uniform(1, 4) / length
    levels = rng.uniform(0, 6, length)
    return levels[np.cumsum(changes)]


def square(rng: Draw, length: int) -> Floats:
    """On and off, with a period and a phase."""
    period, on = rng.uniform(8, 50), rng.uniform(0.2, 0.8)
    phase = (np.arange(length) / period + rng.random()) % 1
    return np.asarray(rng.uniform(1, 6) * (phase < on), dtype=np.float64)


def sawtooth(rng: Draw, length: int) -> Floats:
    """Grows over a period and falls at once."""
    return rng.uniform(2, 6) * ((np.arange(length) / rng.uniform(10, 50) + rng.random()) % 1)


def waves(rng: Draw, length: int) -> Floats:
    """Two sinusoids of unrelated periods, with noise."""
    time, total = np.arange(length), np.zeros(length)
    for height in (rng.uniform(1, 2.5), rng.uniform(0.3, 1)):
        total += height * (1 + np.sin(2 * np.pi * (time / rng.uniform(8, 60) + rng.random())))
    return np.maximum(total + rng.normal(0, 0.2, length), 0.0)


def walk(rng: Draw, length: int) -> Floats:
    """A random walk that never falls below zero."""
    return np.abs(rng.uniform(0, 4) + np.cumsum(rng.normal(0, rng.uniform(0.05, 0.4), length)))


def bursts(rng: Draw, length: int) -> Floats:
    """Busy and idle for times without memory."""
    start, stop, height = rng.uniform(0.02, 0.1), rng.uniform(0.05, 0.3), rng.uniform(1, 6)
    chance, busy, out = rng.random(length), False, np.zeros(length)
    for at in range(length):
        busy = chance[at] >= stop if busy else chance[at] < start
        out[at] = height * busy
    return out


def queue(rng: Draw, length: int) -> Floats:
    """Poisson arrivals of jobs with exponential lengths."""
    rate, mean = rng.uniform(0.05, 0.4), rng.uniform(3, 30)
    out, running = np.zeros(length), int(rng.poisson(rate * mean))
    for at in range(length):
        running += int(rng.poisson(rate)) - int(rng.binomial(running, 1 - np.exp(-1 / mean)))
        out[at] = running
    return out


def noise(rng: Draw, length: int) -> Floats:
    """Without any memory, around a level."""
    level = rng.uniform(0.5, 3)
    return np.maximum(level * (1 + rng.normal(0, rng.uniform(0.1, 0.5), length)), 0.0)


def ramp(rng: Draw, length: int) -> Floats:
    """Straight from one level to another, and then it stays."""
    first, last = sorted(rng.integers(0, length, 2).tolist())
    low, high = rng.uniform(0, 6, 2)
    return np.asarray(np.interp(np.arange(length), [first, max(last, first + 1)], [low, high]), np.float64)


def steady(rng: Draw, length: int) -> Floats:
    """The same all the time."""
    return np.full(length, rng.uniform(0, 5))


KINDS: Mapping[str, Callable[[Draw, int], Floats]] = {
    each.__name__: each for each in (steps, square, sawtooth, waves, walk, bursts, queue, noise, ramp, steady)
}


@dataclass(frozen=True)
class Drawn(Setting):
    """A load of this family; `kind` is one of `KINDS`, or `mixed`."""

    draw: int = 0

    @property
    def name(self) -> str:
        """The load in words."""
        return f"drawn {self.draw}: {self.kind}, {self.perturbed} of {self.channels}"

    def slow(self, seed: int) -> Floats:
        """By how much each channel is slower in each batch."""
        rng = self.chance(seed)
        load = np.zeros((self.batches, self.channels))
        for channel in range(self.perturbed):
            kind = str(rng.choice(sorted(KINDS))) if self.kind == "mixed" else self.kind
            load[:, channel] = KINDS[kind](rng, self.batches)
        return 1 + load

    def chance(self, seed: int) -> np.random.Generator:
        """What the load is drawn from."""
        return np.random.default_rng([29, self.draw, seed])


def drawn(draw: int) -> Drawn:
    """The load with this number. Kinds and sizes take turns, so that any few draws are a fair sample."""
    rng = np.random.default_rng([31, draw])
    kinds = sorted(KINDS)
    kind = kinds[draw // 2 % len(kinds)] if draw % 2 == 0 else "mixed"
    channels, batches, bins = SIZES[draw // 2 % len(SIZES)]
    return Drawn(kind, channels, int(rng.integers(1, channels + 1)), 0.0, batches, bins, draw=draw)
