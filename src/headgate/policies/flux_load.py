"""Flux's load balancing policy (section 5.3), on batches.

Each round sorts the channels by load, pairs the most with the least loaded, the second with the second-last,
and so on, and moves at most one bin per pair. What differs from the paper, because batches are not a running
pipeline:

- A batch lasts as long as its busiest channel, so utilization is load over the busiest load, and the paper's
  bound on the receiver (th_util) follows from the ratio (th_imb).
- Within a pair we take the bin that evens the pair best, not the first that helps at all: fewer moves.
- The boundary of a batch is free, so a plan may hold several rounds, each predicted from the one before. With
  `rounds=1` each channel sends or receives at most one bin, and there are at most `channels // 2` moves.
- When the busiest channel cannot be relieved (one bin holds it all) nothing else shortens the batch: silence.

Not here: memory (`flux_memory`), splitting a bin (pins), and whether the plan is worth its cost (`guard`).
"""

from __future__ import annotations

from dataclasses import dataclass

from headgate.errors import ConfigError
from headgate.ids import Bin, Channel
from headgate.plans.plan import Plan
from headgate.policies.base import bytes_moved, movable
from headgate.reports.load_view import LoadView
from headgate.routing.table import Move, Table

_STRICTLY = 1 - 1e-9  # a move must beat rounding errors, or equal loads would trade bins for ever


@dataclass(frozen=True)
class FluxLoad:
    """Evens the channels' loads pair by pair.

    `imbalance` is Flux's th_imb: a pair below this ratio of loads is left alone. `rounds` bounds the rounds
    in one plan: more converge in fewer batches, and move more state in one.
    """

    imbalance: float = 1.2
    rounds: int = 4

    def __post_init__(self) -> None:
        """Check the settings."""
        if not self.imbalance >= 1 or self.rounds < 1:
            raise ConfigError(
                f"flux-load: imbalance={self.imbalance} and rounds={self.rounds} must be 1 or more"
            )

    @property
    def name(self) -> str:
        """`flux-load`."""
        return "flux-load"

    def initial(self, bins: int, channels: int) -> Table:
        """Deal the bins round robin."""
        return Table.uniform(bins, channels)

    def propose(self, view: LoadView, table: Table) -> Plan | None:
        """Moves that even the pairs; None when the busiest pair is even enough or cannot be helped.

        Law: no move makes its pair worse: after it both are below the donor's load before it. Cost: for each
        round and pair one pass over the donor's bins.
        """
        load = list(view.under(table).channel_load)
        if table.channels < 2 or max(load) <= 0:
            return None
        before = list(load)
        cost = [view.row_cost_ms(channel) for channel in range(table.channels)]
        held = [movable(table, channel) for channel in range(table.channels)]
        moves: list[Move] = []
        for _ in range(self.rounds):
            found = self._round(view, load, cost, held)
            if not found:
                break
            moves += found
        if not moves:
            return None
        busiest = moves[0].source
        touched = {busiest, *(move.target for move in moves if move.source == busiest)}
        gain = 1 - max(load[channel] for channel in touched) / before[busiest]
        mean = sum(before) / len(before)
        return Plan(
            policy=self.name,
            from_version=table.version,
            moves=tuple(moves),
            gain=gain,
            cost=float(bytes_moved(view, moves)),
            reason=f"channel {busiest} has {before[busiest] / mean:.2f} times the mean load",
        )

    def _round(
        self, view: LoadView, load: list[float], cost: list[float], held: list[list[Bin]]
    ) -> list[Move]:
        """One round of pairs; changes `load` and `held` to what it predicts. A moved bin stays moved."""
        mean = sum(load) / len(load)
        order: list[Channel] = sorted(range(len(load)), key=lambda channel: (-load[channel], channel))
        moves: list[Move] = []
        for rank in range(len(order) // 2):
            donor, receiver = order[rank], order[-1 - rank]
            if load[donor] <= mean or load[donor] < self.imbalance * load[receiver]:
                break
            best = min(
                (
                    (max(load[donor] - work * cost[donor], load[receiver] + work * cost[receiver]), size, bin)
                    for bin in held[donor]
                    for work, size in [(view.bin_work.get(bin, 0.0), view.bin_bytes.get(bin, 0))]
                ),
                default=None,
            )
            if best is None or best[0] >= load[donor] * _STRICTLY:
                if rank == 0:
                    break
                continue
            bin = best[2]
            work = view.bin_work[bin]
            load[donor] -= work * cost[donor]
            load[receiver] += work * cost[receiver]
            held[donor].remove(bin)
            moves.append(Move(bin, donor, receiver))
        return moves
