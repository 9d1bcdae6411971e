"""R-MAT (Chakrabarti, Zhan, Faloutsos 2004): random graphs with the heavy-tailed degrees
of a social network.

Each edge falls into one of the four quarters of the adjacency matrix with probabilities a, b, c, d,
then into a quarter of that, and so on, `scale` times. With the defaults degrees resemble those of
LiveJournal, which has 2^22.2 vertices and 14 edges for each. Raw edges have self-loops and
duplicates, as data have: `clean` counts and removes them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headgate.errors import ConfigError
from headgate_lab.graphs.edges import Edges

Draw = Callable[[int], NDArray[np.float64]]
"""Returns a given number of floats, uniform in [0, 1): `numpy.random.default_rng(seed).random`."""

LIVEJOURNAL = (0.57, 0.19, 0.19, 0.05)


def rmat(
    scale: int,
    edges: int,
    draw: Draw,
    *,
    quarters: tuple[float, float, float, float] = LIVEJOURNAL,
    noise: float = 0.0,
    shuffle: bool = True,
) -> Edges:
    """Generate random edges over 2^scale vertices; time and memory grow with scale
    * edges and edges.

    `noise` varies the quarters from level to level, up to that part of each, which smooths the
    steps in the degrees (Seshadhri et al. 2011). `shuffle` renames the vertices, or those with
    small numbers would have the most edges.

    >>> import numpy as np
    >>> made = rmat(10, 5000, np.random.default_rng(1).random)
    >>> made.vertices, len(made), len(made.source)
    (1024, 5000, 5000)
    """
    if not 0 <= scale <= 31:
        raise ConfigError(f"scale={scale} is outside 0..31: a graph has 2^scale vertices")
    if edges < 0:
        raise ConfigError(f"edges={edges} is below 0")
    if min(quarters) < 0 or abs(sum(quarters) - 1) > 1e-9:
        raise ConfigError(f"quarters={quarters} must be 0 or more and sum to 1")
    if not 0 <= noise <= 1:
        raise ConfigError(f"noise={noise} is outside 0..1")
    source = np.zeros(edges, np.int64)
    target = np.zeros(edges, np.int64)
    for wobble in noise * (2 * draw(4 * scale).reshape(scale, 4) - 1):
        parts = np.array(quarters) * (1 + wobble)
        a, b, c, _ = np.cumsum(parts / parts.sum())
        fell = draw(edges)
        low = fell >= b
        source += source + low
        target += target + np.where(low, fell >= c, fell >= a)
    if shuffle:
        names = np.argsort(draw(2**scale))
        source, target = names[source], names[target]
    return Edges(source, target, 2**scale)
