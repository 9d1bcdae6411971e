"""Slow, obvious answers of the operators that go by event time: one channel, one row after the other, in plain Python."""

from collections import defaultdict
from typing import Any

NEVER = -(1 << 62)


class Watermark:
    """The two times of a batch: what was closed before it, and what is closed at its end."""

    def __init__(self, *delays) -> None:
        self.delays, self.newest = delays, [NEVER] * len(delays)
        self.now = self.closed = NEVER

    def after(self, times, source=0) -> None:
        self.newest[source] = max([self.newest[source], *times])

    def next_batch(self) -> None:
        reached = min(n - d if n > NEVER else NEVER for n, d in zip(self.newest, self.delays, strict=True))
        self.closed, self.now = self.now, max(self.now, reached)


def tumbling(batches, size, every, delay):
    """(key, start, end, rows' numbers) of every window that closes, and the numbers of late rows; rows are (key, time, number)."""
    clock, windows = Watermark(delay), defaultdict(list)
    out, late = [], []
    for batch in batches:
        for key, t, number in batch:
            starts = [s for s in range(t - t % every, t - size, -every) if s + size > clock.closed]
            if not starts:
                late.append(number)
            for start in starts:
                windows[key, start].append(number)
        for key, start in [w for w in windows if w[1] + size <= clock.now]:
            out.append((key, start, start + size, sorted(windows.pop((key, start)))))
        clock.after(t for _, t, _ in batch)
        clock.next_batch()
    return out, late


def sessions(batches, gap, delay):
    """The same for sessions."""
    clock, open_ = Watermark(delay), defaultdict(list)  # type: ignore[var-annotated]
    out, late = [], []
    for batch in batches:
        for key, t, number in batch:
            if t + gap <= clock.closed:
                late.append(number)
                continue
            start, end, rows = t, t + gap, [number]
            kept: list[Any] = []
            touching = True
            while touching:  # what is swallowed may reach further sessions
                touching, kept = False, []
                for s, e, some in open_[key]:
                    if s <= end and start <= e:
                        start, end, rows, touching = min(s, start), max(e, end), rows + some, True
                    else:
                        kept.append((s, e, some))
                open_[key] = kept
            open_[key] = [*kept, (start, end, rows)]
        for key, mine in open_.items():
            out += [(key, s, e, sorted(some)) for s, e, some in mine if e <= clock.now]
            open_[key] = [one for one in mine if one[1] > clock.now]
        clock.after(t for _, t, _ in batch)
        clock.next_batch()
    return out, late


def dedup(batches, delay):
    """The numbers of the rows that pass, and of those that are late."""
    clock, expires = Watermark(delay), {}
    out, late = [], []
    for batch in batches:
        for key, t, number in batch:
            if t <= clock.closed:
                late.append(number)
            elif key not in expires:
                out.append(number)
                expires[key] = t + delay
        expires = {key: time for key, time in expires.items() if time > clock.now}
        clock.after(t for _, t, _ in batch)
        clock.next_batch()
    return out, late


def join(batches, how, before, after, delays):
    """(left number or None, right number or None) of every row that is emitted; rows are (key, time, number, side)."""
    clock, kept = Watermark(*delays), []  # type: ignore[var-annotated]
    out, late = [], []
    for batch in batches:
        for key, t, number, side in batch:
            if t <= clock.closed:
                late.append(number)
                continue
            row = {"key": key, "t": t, "number": number, "side": side, "matched": False}
            for other in kept:
                left, right = (row, other) if side == 0 else (other, row)
                close = -before <= right["t"] - left["t"] <= after
                if other["side"] != side and key is not None and other["key"] == key and close:
                    if how == "semi" and not left["matched"]:
                        out.append((left["number"], None))
                    elif how not in ("semi", "anti"):
                        out.append((left["number"], right["number"]))
                    row["matched"] = other["matched"] = True
            kept.append(row)
        gone = [row for row in kept if row["t"] + (before if row["side"] else after) <= clock.now]
        for row in gone:
            if not row["matched"] and row["side"] == 0 and how in ("left", "full", "anti"):
                out.append((row["number"], None))
            if not row["matched"] and row["side"] == 1 and how in ("right", "full"):
                out.append((None, row["number"]))
        kept = [row for row in kept if row not in gone]
        for source in (0, 1):
            clock.after((t for _, t, _, side in batch if side == source), source)
        clock.next_batch()
    return out, late
