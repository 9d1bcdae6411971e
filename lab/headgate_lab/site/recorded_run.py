"""A cluster under skew, recorded: `python -m headgate_lab.site.recorded_run` writes docs/assets/recorded-run.js.

Eight machines of the simulator. Keys are skewed from the start, other keys become hot after a third of the run, and a
machine slows down after two thirds. The same events run under `static` and under `flux-load`; every quarter of a second
the busy share, the bins and the rows of each machine are written down. The page `understand/simulator.md` plays it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from headgate.policies import get
from headgate.simulator.cluster import Cluster
from headgate.simulator.run import Event, Simulation

PLACE = Path("docs/assets/recorded-run.js")
NODES, SECONDS, FRAME_S, SEED = 8, 18, 0.25, 3
SHIFT_S, SLOW_S, SLOW = 6.0, 12.0, 2
SKEW = 0.6
"""The exponent of Zipf's law for the shares of bins: the hottest bin has less than a machine's share."""
POLICIES = ("static", "flux-load")


def shares(seed: int, bins: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Skewed shares of bins, shuffled."""
    weights = 1.0 / np.arange(1, bins + 1) ** SKEW
    return np.random.default_rng([SEED, seed]).permutation(weights / weights.sum())


def recorded(policy: str) -> list[dict[str, Any]]:
    """The frames of a run."""
    cluster = Cluster(nodes=NODES)
    events = [
        Event(SHIFT_S, shares=shares(2, cluster.bins)),
        Event(SLOW_S, (SLOW,), speed=cluster.loaded_speed),
    ]
    run = Simulation(
        cluster, get(policy), shares(1, cluster.bins), seconds=SECONDS, seed=SEED, events=events, tuned=True
    )
    arrays, frames = run.plane.arrays, []
    idle, done = arrays.idle.copy(), arrays.processed.copy()
    for frame in range(1, round(SECONDS / FRAME_S) + 1):
        run.step(round(frame * FRAME_S / cluster.tick_s))
        busy = 1 - np.clip((arrays.idle - idle) / FRAME_S, 0, 1)
        rows = arrays.processed - done
        idle, done = arrays.idle.copy(), arrays.processed.copy()
        frames.append(
            {
                "busy": [round(float(x), 3) for x in busy],
                "bins": np.bincount(arrays.route, minlength=NODES).tolist(),
                "rows": np.bincount(arrays.route, weights=rows, minlength=NODES).astype(int).tolist(),
                "rows_per_s": round(float(rows.sum()) / FRAME_S),
            }
        )
    return frames


def record() -> dict[str, Any]:
    """Both runs, and what happens in them."""
    return {
        "frame_s": FRAME_S,
        "nodes": NODES,
        "events": [
            {"at_s": 0, "what": "some keys are far hotter than others"},
            {"at_s": SHIFT_S, "what": "other keys become hot"},
            {"at_s": SLOW_S, "what": f"machine {SLOW} drops to 43% of its speed"},
        ],
        "runs": {policy: recorded(policy) for policy in POLICIES},
    }


def as_script(run: dict[str, Any]) -> str:
    """The record as a script, so that the page works without a server."""
    return f"window.HEADGATE_RUN = {json.dumps(run, separators=(',', ':'))};\n"


if __name__ == "__main__":
    PLACE.write_text(as_script(record()), encoding="utf-8")
