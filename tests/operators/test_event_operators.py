"""What windows, dedup, joins, lists and functions over tables refuse, by name; and a stray clock."""

import re
import runpy
from pathlib import Path

import pyarrow as pa
import pytest

from headgate import agg
from headgate.errors import ConfigError, MissingColumn, UnsupportedType
from headgate.operators.dedup import Dedup
from headgate.operators.stream_join import Join
from headgate.operators.topk import TopK
from headgate.operators.vectorised import Vectorised
from headgate.operators.windows import Windows, hopping, session, tumbling
from headgate.routing.table import Table
from headgate.state.keys import KeySpec
from headgate.testing.trial import Trial

TIME = pa.timestamp("us", tz="UTC")
KEY = KeySpec(("k",), (pa.int64(),))
SCHEMA = pa.schema([("k", pa.int64()), ("t", TIME), ("v", pa.int64()), ("s", pa.string())])
DAY = 86_400_000_000


def windows(**options):
    return Windows(
        options.pop("window", tumbling("10 s")), **{"on": "t", "delay": "5 s", "n": agg.count(), **options}
    )


def emits(state=None, output=None):
    """A function over tables that returns what it is told."""
    return lambda before, rows: (before if state is None else state(rows), rows if output is None else output)


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (
            lambda: windows(window="10 s"),
            ConfigError,
            r"'10 s' is not a window; write hg\.tumbling\('10 minutes'\)",
        ),
        (lambda: windows(window=tumbling("ten")), ConfigError, "size='ten' is not a duration"),
        (lambda: hopping("5 s", every="10 s"), ConfigError, "rows in between would be in no window"),
        (lambda: tumbling("0 s"), ConfigError, "shorter than 1 us"),
        (lambda: windows(emit="complete"), ConfigError, "emit='complete': windows are emitted 'append'"),
        (
            lambda: windows(window=session("5 s"), emit="update"),
            ConfigError,
            "a session has no start or end that lasts",
        ),
        (lambda: windows(n=3), ConfigError, "n=3 is not an aggregate"),
        (
            lambda: Windows(tumbling("10 s"), on="t", delay="1 s"),
            ConfigError,
            r"Windows\(\) has nothing to compute",
        ),
        (lambda: windows(on="when"), MissingColumn, "reads column 'when', but the stream has 'k', 't'"),
        (
            lambda: windows(on="v"),
            UnsupportedType,
            "the time of a row is a timestamp, but 'v' is int64; cast it",
        ),
        (lambda: windows(window_start=agg.count()), ConfigError, "would emit column 'window_start' twice"),
        (lambda: windows(k=agg.count()), ConfigError, "'k' has the name of a key column"),
        (
            lambda: windows(window=session("5 s"), f=agg.first("v")),
            ConfigError,
            "f: sessions that become one have no order",
        ),
        (lambda: Dedup(on="t"), ConfigError, "on='t', delay=None: give both, or neither"),
        (lambda: Dedup(keep=["x"]), MissingColumn, "reads column 'x'"),
        (
            lambda: Join("outer", delay="1 s"),  # type: ignore[arg-type]
            ConfigError,
            "how='outer': streams can be joined 'inner', 'left'",
        ),
        (lambda: Join(delay=("1 s",)), ConfigError, "give one, or one of the left and one of the right"),  # type: ignore[arg-type]
        (lambda: Join(delay="1 s"), MissingColumn, r"give the stage hg\.two_streams"),
        (lambda: TopK(0, by="v"), ConfigError, "k=0: a list has at least one row"),
        (
            lambda: TopK(3, by="s"),
            UnsupportedType,
            "column 's' has type string, which it cannot put in order; cast it",
        ),
        (lambda: Vectorised(3, state={}, output={}), ConfigError, "3 is not a function"),  # type: ignore[arg-type]
        (
            lambda: Vectorised(emits(), state={"k": pa.int64()}, output={}),
            ConfigError,
            "the key is there by itself",
        ),
        (
            lambda: Vectorised(emits(), state={}, output={}, resources="XL"),
            ConfigError,
            "a letter of C, L, Q for each",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name(make, error, said) -> None:
    with pytest.raises(error, match=said):
        make().bind(KEY, SCHEMA)


def rows_of(*rows):
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(columns[0], pa.int64()), pa.array(columns[1], pa.int64()).view(TIME)]
    return pa.RecordBatch.from_arrays(
        [*arrays, pa.array(columns[2]), pa.array(["x"] * len(rows))], schema=SCHEMA
    )


ONE = {"n": pa.int64()}


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (lambda state, rows: rows, "returned Table; it must return two tables"),
        (lambda state, rows: (state, 5), "returned int as output; it must be a pyarrow Table"),
        (lambda state, rows: (state, rows.select(["v"])), "output without the column 'k'"),
        (lambda state, rows: (rows.select(["k"]), rows), "state without the column 'n'"),
        (
            lambda state, rows: (pa.table({"k": [1, 1], "n": [1, 2]}), rows),
            r"two rows of state for the key {'k': 1}",
        ),
        (
            lambda state, rows: (pa.table({"k": [77], "n": [1]}), rows),
            r"state for the key {'k': 77}, which has no row",
        ),
        (lambda state, rows: (pa.table({"k": [1], "n": ["many"]}), rows), "state that does not fit"),
    ],
)
def test_a_function_that_answers_wrongly_is_told(fn, said) -> None:
    operator = Vectorised(fn, state=ONE, output={"k": pa.int64()}).bind(KEY, SCHEMA)
    with pytest.raises(ConfigError, match=said):
        Trial(operator).batch(rows_of((1, 0, 0)), Table.uniform(1, 1))


def test_a_stray_clock_closes_no_window() -> None:
    """One row from the year 2100 is counted and gets its window; the others stay open."""
    channels = Trial(windows(delay="1 s").bind(KEY, SCHEMA))
    far = 130 * 365 * DAY
    out = [channels.batch(rows_of((1, 1, 0), (1, 2, 0), (2, far, 0)), Table.uniform(2, 2))]
    out += [channels.batch(rows_of((1, 3, 0)), Table.uniform(2, 2)) for _ in range(2)]
    assert sum(table.num_rows for table in out) == 0
    assert channels.clock.counts == {"far ahead": 1}
    out = [channels.batch(rows_of((1, 20_000_000, 0)), Table.uniform(2, 2)) for _ in range(2)]
    assert [row["n"] for table in out for row in table.to_pylist()] == [4]


def test_values_that_are_null_or_no_number_have_their_place_in_a_list() -> None:
    schema = pa.schema([("k", pa.int64()), ("x", pa.float64())])
    channels = Trial(TopK(4, by="x").bind(KEY, schema))
    values = [None, 1.0, float("nan"), -0.0, float("-inf"), 0.0]
    rows = pa.RecordBatch.from_arrays([pa.array([1] * 6), pa.array(values)], schema=schema)
    out = channels.batch(rows, Table.uniform(1, 1))
    assert [repr(v) for v in out["x"].to_pylist()] == ["nan", "1.0", "-0.0", "0.0"]
    assert out["rank"].to_pylist() == [1, 2, 3, 4]


@pytest.mark.parametrize("delay", ["7 s", "0 s"])
def test_the_repr_of_an_operator_makes_it_again(delay) -> None:
    import headgate as hg

    for operator in (
        windows(delay=delay, ahead="2 days"),
        windows(window=hopping("10 s", every="5 s"), emit="update"),
        windows(window=session("5 s")),
        Dedup(on="t", delay=delay, keep=["v"]),
        Dedup(),
        Join("full", before="1 s", delay=(delay, "3 s")),
        TopK(3, by="v", keep=["s"]),
    ):
        names = {
            **{
                name: getattr(hg, name)
                for name in ("Dedup", "Join", "TopK", "Windows", "hopping", "session", "tumbling")
            },
            **vars(agg),
        }
        assert repr(eval(repr(operator), names)) == repr(operator)


def test_the_examples_of_the_page_run(tmp_path) -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "operators.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
    assert len(blocks) == 8
    (tmp_path / "page.py").write_text("\n".join(blocks))
    runpy.run_path(str(tmp_path / "page.py"))
