"""User kernels against a plain Python loop: any batches, any tables, any crashes, and the same answer; interpreted as compiled."""

import copy
import datetime as dt
from datetime import timedelta
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.routing.table import Pin
from headgate.state.keys import KeySpec
from headgate.testing import builders
from headgate.testing.arrow import printed
from headgate.testing.engine import key_hashes
from headgate.testing.trial import Trial

FEW = settings(max_examples=settings.default.max_examples // 2)  # type: ignore[union-attr]
DAY = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def interpreted(kernel):
    """The same kernel, not compiled."""
    made = hg.kernel(**{**kernel.options, "compiled": False})(kernel.function)
    if kernel.timer is not None:
        made.on_timer(kernel.timer)
    return made


class PlainRing(list):
    """A ring as a list."""

    most = 3

    def append(self, value) -> None:
        super().append(value)
        del self[: -self.most]


class PlainMap(dict):
    """A map that knows its bound."""

    def __setitem__(self, key, value) -> None:
        if key not in self and len(self) == 3:
            raise ValueError("full")
        super().__setitem__(key, value)


class PlainText:
    """A field that knows its bound."""

    def __set_name__(self, owner, name):
        self.name = f"_{name}"

    def __get__(self, state, owner):
        return getattr(state, self.name, "")

    def __set__(self, state, value) -> None:
        if len(value.encode()) > 6:
            raise ValueError("long")
        setattr(state, self.name, value)


class PlainState:
    """State as a user would write it for himself."""

    name = PlainText()

    def __init__(self) -> None:
        self.n, self.total, self.open, self.last, self.seen = 0, 0.0, False, PlainRing(), PlainMap()
        self.gone, self.wake = False, None

    def forget(self) -> None:
        self.gone = True

    def wake_at(self, when) -> None:
        self.wake = when


@hg.kernel(
    state={
        "n": int,
        "total": float,
        "open": bool,
        "name": hg.kernels.text(6),
        "last": hg.kernels.ring(float, 3),
        "seen": hg.kernels.mapping(int, float, 3),
    },
    output={"n": int, "total": float, "name": str, "low": float, "open": bool},
    keep=["id"],
    on_error="skip",
)
def ledger(state, row):
    """Something of everything that needs no time."""
    state.n += 1
    if row.x is None:
        return
    state.last.append(row.x)
    state.total += row.x / row.i
    low = 0
    for v in state.last:
        if v < low:
            low = v
    if row.s is not None and not state.open:
        state.name = row.s
        state.open = True
    if row.i in state.seen and state.seen[row.i] > 0:
        del state.seen[row.i]
    else:
        state.seen[row.i] = state.seen.get(row.i, 0.0) + row.x
    yield state.n, state.total, state.name if state.open else None, low, row.x > low
    if row.s is not None and row.s.startswith("f"):
        state.forget()
        yield len(state.last), state.last[-1], row.s[:2], float(len(state.seen)), True


SCHEMA = pa.schema(
    [("k", pa.string()), ("id", pa.int64()), ("x", pa.float64()), ("i", pa.int32()), ("s", pa.string())]
)


@st.composite
def ledgers(draw):
    """Rows of few keys."""
    row = st.tuples(
        st.none() | st.sampled_from("abc"),
        st.none() | st.floats(-1e6, 1e6) | st.just(float("nan")),
        st.none() | st.integers(-2, 4),
        st.none() | st.sampled_from(["", "f", "fé", "abc", "longer than that", "ünïx"]),
    )
    rows = draw(st.lists(row, min_size=1, max_size=40))
    return pa.Table.from_pylist(
        [{"k": k, "id": n, "x": x, "i": i, "s": s} for n, (k, x, i, s) in enumerate(rows)], schema=SCHEMA
    )


def plainly(kernel, rows):
    """(emitted rows, ids that failed, states) of a kernel's own function, called in a loop."""
    states, out, failed = {}, [], []  # type: ignore[var-annotated]
    for row in rows.to_pylist():
        before = states.get(row["k"]) or PlainState()
        state = copy.deepcopy(before)
        try:
            emitted = [
                (row["k"], row["id"], *values) for values in kernel.function(state, SimpleNamespace(**row))
            ]
        except (ArithmeticError, TypeError, ValueError, LookupError):
            failed.append(row["id"])
            continue
        out += emitted
        states[row["k"]] = PlainState() if state.gone else state
    return out, failed, {k: s for k, s in states.items() if s.n}


def by_id(table):
    """Rows in the order of the source."""
    return sorted(printed(table), key=lambda row: row[1])


def same(table, rows):
    """Whether emitted rows are these, to the bit."""
    wanted = pa.Table.from_pylist([dict(zip(table.column_names, r, strict=True)) for r in rows], table.schema)
    return by_id(table) == by_id(wanted)


def in_order(aside):
    """Rows put aside, by number."""
    return sorted(repr(sorted(row.items())) for row in aside)


SCRIPTS = st.fixed_dictionaries(
    {
        "batches": st.integers(1, 5),
        "channels": st.integers(1, 3),
        "crash": st.sets(st.integers(0, 4)),
        "redeliver": st.sets(st.integers(0, 4)),
        "move": st.sets(st.integers(0, 4)),
    }
)


@given(rows=ledgers(), script=SCRIPTS)
@FEW
def test_a_kernel_is_a_plain_loop_whatever_happens(rows, script) -> None:
    ran = hg.testing.run(ledger, rows, **script)
    out, failed, states = plainly(ledger, rows)
    assert same(ran.table, out)
    assert sorted(row["id"] for row in ran.aside) == failed
    found = {
        k: (s["n"], s["total"], s["name"], s["last"], s["seen"], s["open"])
        for k, s in ran.state.items()
        if s["n"]
    }
    wanted = {k: (s.n, s.total, s.name, list(s.last), dict(s.seen), s.open) for k, s in states.items()}
    assert repr(sorted(found.items(), key=str)) == repr(sorted(wanted.items(), key=str))


@given(rows=ledgers(), script=SCRIPTS)
@FEW
def test_interpreted_is_compiled(rows, script) -> None:
    fast, slow = (hg.testing.run(kernel, rows, **script) for kernel in (ledger, interpreted(ledger)))
    assert printed(fast.table) == printed(slow.table)
    assert in_order(fast.aside) == in_order(slow.aside), "the reasons too"
    assert repr(fast.state) == repr(slow.state)


@given(rows=ledgers(), data=st.data())
@FEW
def test_pins_sleep_snapshots_and_rescales_change_nothing(rows, data) -> None:
    key = KeySpec(("k",), (pa.string(),))
    channels = Trial(ledger.bind(key, SCHEMA))
    batch = rows.combine_chunks().to_batches()[0]
    hashes = sorted({int(h) for h in key_hashes(batch, key)})
    out = []
    cuts = sorted(data.draw(st.lists(st.integers(0, batch.num_rows), max_size=3)))
    for start, end in zip([0, *cuts], [*cuts, batch.num_rows], strict=True):
        pins = tuple(Pin(h, 6 + at, "hot") for at, h in enumerate(hashes) if data.draw(st.booleans()))
        assigned = data.draw(st.lists(st.integers(0, 2), min_size=6 + len(pins), max_size=6 + len(pins)))
        asleep = data.draw(st.sets(st.integers(0, 5)))
        snapshots = data.draw(st.sets(st.integers(0, 5)))
        under = builders.table(assigned, pins=pins)
        options = {
            "chunks": [3, 5],
            "snapshots": snapshots,
            "asleep": asleep,
            "crash": data.draw(st.booleans()),
        }
        out.append(channels.batch(batch.slice(start, end - start), under, **options))
    out.append(channels.batch(batch.slice(0, 0), builders.table([0] * 6)))
    assert same(pa.concat_tables(out), plainly(ledger, rows)[0])


# -- time


@hg.kernel(
    state={"n": int, "first": dt.datetime, "last": hg.kernels.ring(dt.datetime, 3)},
    output={"n": int, "long": float, "at": dt.datetime},
    on="ts",
    delay="5 minutes",
    ttl="40 minutes",
)
def session(state, row):
    """Emits when a key has been silent for ten minutes; a stop ends it at once."""
    if state.n == 0:
        state.first = row.ts
    state.n += 1
    state.last.append(row.ts)
    if row.stop:
        state.forget()
        return state.n, (row.ts - state.first).total_seconds(), row.ts
    if not row.mute:
        state.wake_at(max(state.last) + timedelta(minutes=10))


@session.on_timer
def silent(state, now):
    """Twice ten minutes, then it is over."""
    n = state.n
    if n < 100:
        state.n += 100
        state.wake_at(now + timedelta(minutes=10))
    else:
        state.forget()
    return n, (now - state.first).total_seconds(), now


@st.composite
def visits(draw):
    """Rows whose times wander."""
    row = st.tuples(st.integers(0, 3), st.integers(0, 12), st.sampled_from([0, 0, 0, 1]), st.booleans())
    rows, minute = [], 0
    for k, later, stop, mute in draw(st.lists(row, min_size=1, max_size=30)):
        minute += later
        ts = DAY + timedelta(minutes=minute - draw(st.integers(0, 12)))
        rows.append({"k": k, "ts": ts, "stop": bool(stop), "mute": mute})
    kinds = [("k", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("stop", pa.bool_()), ("mute", pa.bool_())]
    return pa.Table.from_pylist(rows, schema=pa.schema(kinds))


class PlainSession(PlainState):
    """With an expiry."""

    first, expiry = None, None


def plain_sessions(rows, sizes):
    """The rules of event time, written out: per batch what is emitted, and how many rows were late."""
    never = DAY - timedelta(days=1000)
    newest = watermark = closed = never
    states, batches, late, start = {}, [], 0, 0  # type: ignore[var-annotated]
    rows = rows.to_pylist()
    for size in sizes:
        out = []
        came = rows[start : start + size]
        start += size
        for row in came:
            newest = max(newest, row["ts"])
            if row["ts"] <= closed:
                late += 1
                continue
            state = states.setdefault(row["k"], PlainSession())
            emitted = session.function(state, SimpleNamespace(**row))
            out += [(row["k"], *emitted)] if emitted else []
            expiry = row["ts"] + timedelta(minutes=40)
            state.expiry = expiry if state.expiry is None else max(state.expiry, expiry)
            if state.gone:
                del states[row["k"]]
        for k, state in list(states.items()):
            while state.wake is not None and state.wake <= min(watermark, state.expiry) and not state.gone:
                now, state.wake = state.wake, None
                out.append((k, *session.timer(state, now)))  # type: ignore[misc]
            if state.gone or state.expiry <= watermark:
                del states[k]
        closed, watermark = watermark, max(watermark, newest - timedelta(minutes=5))
        batches.append(sorted(out))
    return batches, late, {k: s.n for k, s in states.items()}


@pytest.mark.parametrize("kernel", [session, interpreted(session)], ids=["compiled", "interpreted"])
@given(rows=visits(), script=SCRIPTS)
@FEW
def test_timers_and_expiry_follow_the_watermark(kernel, rows, script) -> None:
    n, cut = rows.num_rows, script["batches"]
    sizes = [n * (b + 1) // cut - n * b // cut for b in range(cut)]
    ran = hg.testing.run(kernel, rows, idle=2, **script)
    batches, late, states = plain_sessions(rows, [*sizes, 0, 0])
    assert [sorted(map(tuple, (r.values() for r in b.to_pylist()))) for b in ran.batches] == batches
    assert [row["reason"] for row in ran.aside] == ["late"] * late
    assert {k: s["n"] for k, s in ran.state.items()} == states


# -- arithmetic
