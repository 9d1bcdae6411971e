"""What a batch of a direct stream costs: a fixed time, and a time for each row and for each touched key.

    batch_ms = fixed + (rows * row + touched * key + rows * skew * (busiest / mean - 1)) / cores

There is a channel for each core. Only the part of a row's cost that falls to its channel alone grows
with skew: `skew`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from headgate.errors import ConfigError

FORMAT = 1


@dataclass(frozen=True)
class Cost:
    """The constants of one kind of operator: ms, and microseconds of one core for a row or touched key."""

    fixed_ms: float
    row_us: float
    key_us: float
    skew_us: float

    def batch_ms(self, rows: float, touched: float, cores: int, busiest: float = 1.0) -> float:
        """The time of a batch on so many cores and channels."""
        work_us = rows * self.row_us + touched * self.key_us + rows * self.skew_us * (busiest - 1.0)
        return self.fixed_ms + work_us / 1e3 / cores


@dataclass(frozen=True)
class Costs:
    """Constants by kind of operator, and where they were measured."""

    kinds: Mapping[str, Cost]
    machine: str
    here: bool = False
    """Whether they were measured on this machine."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        kinds = {
            name: {field: round(value, 6) for field, value in asdict(cost).items()}
            for name, cost in self.kinds.items()
        }
        return {"format": FORMAT, "machine": self.machine, "kinds": kinds}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, here: bool = False) -> Costs:
        """Read what `to_json` wrote."""
        return cls({name: Cost(**cost) for name, cost in data["kinds"].items()}, data["machine"], here)


@dataclass(frozen=True)
class Sample:
    """One measured batch: its rows, touched keys and time, and the rows of its busiest channel over the mean."""

    rows: float
    touched: float
    batch_ms: float
    busiest: float = 1.0


def fitted(samples: Sequence[Sample], cores: int) -> Cost:
    """The constants that fit measured batches best, in relative terms; none is negative.

    Without a skewed batch among them, all of a row's cost is taken to grow with skew.
    """
    unit = 1e3 * cores
    design = np.array(
        [[1.0, s.rows / unit, s.touched / unit, s.rows * (s.busiest - 1.0) / unit] for s in samples]
    )
    measured = np.array([s.batch_ms for s in samples])
    if any(s.busiest > 1.2 for s in samples):
        return Cost(*_least(design, measured))
    fixed, row, key = _least(design[:, :3], measured)
    return Cost(fixed, row, key, row)


def _least(design: np.ndarray[Any, Any], measured: np.ndarray[Any, Any]) -> list[float]:
    """Least squares of relative errors without negative constants: a negative one is set to 0."""
    weighted = design / np.maximum(measured, 1e-9)[:, None]
    found = np.zeros(design.shape[1])
    used = list(range(design.shape[1]))
    while used:
        part, *_ = np.linalg.lstsq(weighted[:, used], np.ones(len(measured)), rcond=None)
        if (part >= 0).all():
            found[used] = part
            break
        used.pop(int(np.argmin(part)))
    return [float(each) for each in found]


def here_path() -> Path:
    """Where the constants of this machine are kept: in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "headgate" / "doctor.json"


def load(path: Path | None = None) -> Costs:
    """The constants in a file; by default those of this machine, or else those that come with headgate."""
    own = here_path()
    if path is None and not own.exists():
        text = resources.files("headgate.doctor").joinpath("costs.json").read_text(encoding="utf-8")
        return Costs.from_json(json.loads(text))
    file = own if path is None else path
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise ValueError(f"its format is {data['format']}, and this headgate reads {FORMAT}")
        return Costs.from_json(data, here=True)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{file} has no constants of headgate doctor ({error}): measure them with --calibrate"
        ) from error


def save(costs: Costs, path: Path | None = None) -> Path:
    """Keep constants for later runs."""
    file = path or here_path()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(costs.to_json(), indent=1) + "\n", encoding="utf-8")
    return file
