"""The policy's example, Figure 6 (FX-36): exact."""

from __future__ import annotations

from headgate.control.view import LoadView
from headgate.policies import FluxLoad
from headgate.routing.table import Table
from headgate_lab.papers.claims import Claim

SITES = ((9, 12, 14, 15, 40), (5, 9, 16, 38), (5, 15, 20), (10,))
"""Tuples of each partition at each of four sites, in a window of 100; partitions are numbered from 1."""


def figure_6() -> list[Claim]:
    """Pairs (1, 4) and (2, 3); partition 9 is larger than 8, and would leave its pair further apart."""
    owners = [site for site, counts in enumerate(SITES) for _ in counts]
    rows = dict(enumerate(count for counts in SITES for count in counts))
    table = Table(version=0, from_batch=0, channels=4, hash_bins=len(owners), assignment=tuple(owners))
    used = {site: sum(counts) / 100 for site, counts in enumerate(SITES)}
    work = {bin: float(count) for bin, count in rows.items()}
    view = LoadView(alpha=1.0, reports=1, bin_work=work, utilization=used, period_ms=100.0)
    plan = FluxLoad.paper().propose(view, table)
    moves = [(m.bin + 1, m.source + 1, m.target + 1) for m in (plan.moves if plan else ())]
    told = "; ".join(f"{bin} from site {source} to {target}" for bin, source, target in moves)
    return [
        Claim("FX-36", "Figure 6: moves of a round", "5 from site 1 to 4; 8 from site 2 to 3, not 9", told, "exact",
              moves == [(5, 1, 4), (8, 2, 3)]),
    ]  # fmt: skip
