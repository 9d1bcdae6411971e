"""Short ways to make a table and a report in a test. The same arguments give the same value."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from headgate.control.report import BatchReport, BinReport, ChannelReport, HotKey
from headgate.ids import Bin
from headgate.routing.table import Pin, Table


def table(
    assignment: Sequence[int],
    *,
    channels: int | None = None,
    pins: Sequence[Pin] = (),
    version: int = 0,
    from_batch: int = 0,
) -> Table:
    """A table from the channel of each bin; the last `len(pins)` bins are those of the pins."""
    return Table(
        version=version,
        from_batch=from_batch,
        channels=max(assignment) + 1 if channels is None else channels,
        hash_bins=len(assignment) - len(pins),
        assignment=tuple(assignment),
        pins=tuple(pins),
    )


def report(
    batch: int,
    under: Table,
    rows: Mapping[Bin, int] | Sequence[int],
    *,
    ms_per_row: Sequence[float] | float = 1.0,
    bytes_per_bin: int = 100,
    hot_keys: Sequence[HotKey] = (),
    sizes: Mapping[Bin, int] | None = None,
    memory: Sequence[int] = (),
    on_disk: Collection[Bin] = (),
    wall_ms: float | None = None,
) -> BatchReport:
    """The report of a batch with these rows per bin, if a row takes `ms_per_row` (on its channel).

    `sizes` has the state bytes of bins for which they differ from `bytes_per_bin`, `memory` the
    memory limit of each channel. `wall_ms` defaults to the time of the busiest channel.
    """
    per_bin = dict(rows) if isinstance(rows, Mapping) else dict(enumerate(rows))
    costs = [ms_per_row] * under.channels if isinstance(ms_per_row, int | float) else list(ms_per_row)
    size = {bin: (sizes or {}).get(bin, bytes_per_bin) for bin in under.bins}
    bins = tuple(
        BinReport(
            bin, per_bin.get(bin, 0), per_bin.get(bin, 0) * costs[channel], size[bin], on_disk=bin in on_disk
        )
        for bin, channel in under.items()
    )
    sums = [sum(per_bin.get(bin, 0) for bin in under.bins_of(channel)) for channel in range(under.channels)]
    busiest = max(total * cost for total, cost in zip(sums, costs, strict=True))
    wall = busiest if wall_ms is None else wall_ms
    channels = tuple(
        ChannelReport(
            channel=channel,
            rows=total,
            out_rows=total,
            busy_ms=total * costs[channel],
            idle_ms=wall - total * costs[channel],
            state_bytes=sum(size[bin] for bin in under.bins_of(channel)),
            executor=f"executor-{channel}",
            memory_limit=memory[channel] if memory else 0,
            resident_bytes=sum(size[bin] for bin in under.bins_of(channel) if bin not in on_disk),
            disk_bytes=sum(size[bin] for bin in under.bins_of(channel) if bin in on_disk),
        )
        for channel, total in enumerate(sums)
    )
    return BatchReport(
        batch=batch,
        table_version=under.version,
        rows=sum(sums),
        wall_ms=wall,
        channels=channels,
        bins=bins,
        hot_keys=tuple(hot_keys),
    )
