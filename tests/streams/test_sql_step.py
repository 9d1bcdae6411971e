"""Conditions and selections without Spark: what is read and refused, nulls, failures, pruning, pickling.

That answers are Spark's is checked against Spark itself, in `tests/spark/test_sql_step.py`.
"""

import math
import pickle
import random
import subprocess
import sys
from itertools import product

import pyarrow as pa
import pytest

from headgate.errors import ConfigError, MissingColumn, StepFailed, UnsupportedType
from headgate.state.payload import Payload
from headgate.streams.sql_step import NotColumnar, Select, Where

LISTS = Payload(pa.list_(pa.int32()), "array<int>")
NO_WAY = Payload(pa.bool_(), "interval", refusal="column 'no' cannot be carried")
NAN = float("nan")
ROWS = pa.table(
    {
        "user": ["a", "bé", None, ""],
        "amount": [1.5, NAN, None, -0.0],
        "i": pa.array([1, 2**31 - 1, None, 0], pa.int32()),
        "l": pa.array([2**63 - 1, 0, None, 5], pa.int64()),
        "flag": [True, False, None, True],
        "day": pa.array([0, 19_782, None, -1], pa.date32()),
        "time": pa.array([0, 10**15, None, -1], pa.timestamp("us", tz="UTC")),
        "money": pa.array([None] * 4, pa.decimal128(10, 2)),
        "list": pa.ExtensionArray.from_storage(
            LISTS, pa.array([[1], None, [2, 3], []], pa.list_(pa.int32()))
        ),
        "a.b": [1, 2, 3, 4],
    }
)


def kept(text: str, rows: pa.Table = ROWS, **settings: object) -> list[object]:
    step = Where(text, **settings).bind(rows.schema)  # type: ignore[arg-type]
    return step.apply(rows).column("a.b").to_pylist()


def selected(*texts: str, rows: pa.Table = ROWS) -> pa.Table:
    step = Select(*texts).bind(rows.schema)
    found = step.apply(rows)
    assert found.schema == step.schema
    return found


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("amount > 0", [1, 2]),  # a NaN is the greatest number
        ("amount = 0", [4]),
        ("amount = amount", [1, 2, 4]),
        ("NOT amount > 0", [4]),
        ("USER = 'a' OR `user` IS NULL", [1, 3]),
        ("i IN (1, NULL)", [1]),
        ("i NOT IN (1, NULL)", []),
        ("i <> 0 AND 10 / i > 1", [1]),
        ("`a.b` BETWEEN 2 AND 3", [2, 3]),
        ("list IS NOT NULL", [1, 3, 4]),
        ("length(user) = 2 -- letters, and not bytes", [2]),
        ("time >= '2000-01-01' AND day < DATE '2030-01-01'", [2]),
        ("time < TIMESTAMP '1970-01-01 00:00:00'", [4]),
        ("flag <=> NULL", [3]),
        ("true", [1, 2, 3, 4]),
        ("1 > 2", []),
    ],
)
def test_a_condition_keeps_rows_in_order(text, rows):
    assert kept(text) == rows
    twice = pa.concat_tables([ROWS, ROWS.slice(1)])  # in two chunks
    assert kept(text, twice) == rows + [row for row in rows if row != 1]
    assert kept(text, ROWS.slice(0, 0)) == []


def test_conditions_follow_the_logic_of_three_values():
    truth = [True, False, None]
    rows = pa.table(dict(zip("xyz", map(list, zip(*product(truth, repeat=3), strict=True)), strict=True)))

    def oracle(text: tuple, x: dict) -> bool | None:
        if text[0] in "xyz":
            return x[text[0]]
        values = [oracle(part, x) for part in text[1:]]
        if text[0] == "NOT":
            return None if values[0] is None else not values[0]
        if text[0] == "IS NULL":
            return values[0] is None
        if text[0] == "=":
            return None if None in values else values[0] == values[1]
        decisive = text[0] == "OR"
        return decisive if decisive in values else None if None in values else not decisive

    def written(text: tuple) -> str:
        if text[0] in "xyz":
            return text[0]
        parts = [f"({written(part)})" for part in text[1:]]
        return (
            f"NOT {parts[0]}"
            if text[0] == "NOT"
            else f" {text[0]} ".join(parts) + " IS NULL" * (text[0] == "IS NULL")
        )

    def drawn(chance: random.Random, depth: int) -> tuple:
        if not depth:
            return (chance.choice("xyz"),)
        op = chance.choice(["AND", "OR", "NOT", "IS NULL", "="])
        return (op, *(drawn(chance, depth - 1) for _ in range(1 if op in ("NOT", "IS NULL") else 2)))

    chance = random.Random(3)
    for _ in range(200):
        tree = drawn(chance, 3)
        expected = [oracle(tree, row) for row in rows.to_pylist()]
        assert selected(f"{written(tree)} AS r", rows=rows)["r"].to_pylist() == expected, written(tree)


def test_a_selection_names_computes_and_passes_on():
    found = selected("USER", "list", "amount * 2 AS twice", "i / 2 half", "1.5 AS rate")
    assert found.schema.names == ["USER", "list", "twice", "half", "rate"]
    assert found.schema.types == [pa.string(), LISTS, pa.float64(), pa.float64(), pa.decimal128(2, 1)]
    assert found["list"].to_pylist() == ROWS["list"].to_pylist()
    twice = found["twice"].to_pylist()
    assert twice[0] == 3.0
    assert math.isnan(twice[1])
    assert selected("*").equals(ROWS) or selected("*").schema == ROWS.schema  # a NaN is not equal to itself
    assert selected("* , i + 0L AS x").schema.names == [*ROWS.schema.names, "x"]
    assert Select("*, if(flag, 1, 2) AS x").items == ("*", "if(flag, 1, 2) AS x")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("i + 1", pa.int32()), ("i + 1L", pa.int64()), ("1.5", pa.decimal128(2, 1)), ("i / i", pa.float64()),
        ("l div 2", pa.int64()), ("amount * 1.5", pa.float64()), ("CAST(i AS STRING)", pa.string()), ("year(day)", pa.int32()),
        ("to_date(time)", pa.date32()), ("date_trunc('hour', time)", pa.timestamp("us", tz="UTC")), ("NULL", pa.null()),
        ("2147483648", pa.int64()), ("-2147483648", pa.int32()), ("5S", pa.int16()), ("coalesce(i, l)", pa.int64()),
    ],
)  # fmt: skip
def test_types_are_sparks(text, value):
    assert Select(f"{text} AS x").bind(ROWS.schema).schema.field("x").type == value


@pytest.mark.parametrize(
    "text",
    [
        "regexp_extract(user, 'a', 0) = 'a'", "user RLIKE 'a'", "lower(user) = 'a'", "list[0] = 1", "list.x = 1",
        "user = 1", "amount > money", "money + 1 > 2", "round(amount) = 1", "cast(amount AS STRING) = '1'", "user LIKE 'a_'",
        "time > DATE '2024-1-1'", "time > TIMESTAMP '2024-01-01 00:00:00Z'", "list = list", "i IN (l, 1)", "user = 'a\\n'",
        'user = "a"', "user = 'a' 'b'", "day + 1 > day", "i::bigint > 1", "i & 1 = 1", "user IS TRUE", "NULL",
        "exists(SELECT 1)", "substring(user, -1) = 'a'", "end > 1", "concat(user, i) = 'a'", 
        "x'1F' = user", "(i, l) IN ((1, 2))", "NULL = NULL",
        "if(flag, -0e0, 0e0) = 0", "CASE WHEN flag THEN amount + 0 / -2 END > 1", "greatest(user, 'a') = 'a'",
        "INTERVAL '1' DAY > 1", "é = 1", "day = time",
        "i > 1e400", "cast(user AS INT) = 1", "ifnull(i) > 1", "trim(BOTH 'x' FROM user) = 'a'", "1.5F > 1", "user > day",
    ],
)  # fmt: skip
def test_what_is_not_proven_is_left_to_spark(text):
    with pytest.raises(NotColumnar) as refusal:
        Where(text).bind(ROWS.schema)
    assert len(refusal.value.reason) > 10
    assert not isinstance(refusal.value, ConfigError)


@pytest.mark.parametrize(
    "text",
    [
        "i + 1 > 0",
        "i / 2 > 1",
        "i % 2 = 0",
        "-i > 0",
        "day < '2024-01-01'",
        "abs(i) > 1",
        "floor(amount) = 1",
    ],
)
def test_what_depends_on_ansi_mode_is_left_to_spark_without_it(text):
    Where(text).bind(ROWS.schema)
    with pytest.raises(NotColumnar):
        Where(text, ansi=False).bind(ROWS.schema)


@pytest.mark.parametrize(
    "text", ["hour(time) = 1", "year(time) > 2000", "time > '2024-01-01'", "to_date(time) = day"]
)
def test_what_depends_on_the_time_zone_is_left_to_spark_outside_utc(text):
    Where(text).bind(ROWS.schema)
    with pytest.raises(NotColumnar, match=r"zone"):
        Where(text, zone="Europe/Paris").bind(ROWS.schema)
    assert kept("year(day) = 1970", zone="Europe/Paris") == [1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("amount >", r"a value is missing \(line 1, column 9\)"), ("(amount > 0", r"not closed \(line 1, column 1\)"),
        ("amount > 0)", "was not opened"), ("user = 'a", "quote ' is not closed"), ("amount > 0 amount", r"column 12"),
        ("amount\n> > 0", r"line 2, column 3"), ("", "empty"), ("  -- nothing", "empty"), ("amount > ; 1", "';' is not expected"),
        ("i IN ()", "a value is missing"), ("CASE i END = 1", "CASE has no WHEN"), ("i NOT 5", "NOT is followed by"),
        ("i BETWEEN 1", "AND is missing"), ("sum(amount) > 1", "is an aggregate"), ("count(1) > 1", "is an aggregate"),
        ("user", "string and not boolean"), ("AND flag", "a value is missing before AND"), ("CASE WHEN flag THEN 1 = 1", "END is missing"),
    ],
)  # fmt: skip
def test_misuse_of_a_condition_is_told_at_once(text, said):
    with pytest.raises(ConfigError, match=said):
        Where(text).bind(ROWS.schema)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["i + 1"], "has no name; add one, such as `i \\+ 1 AS x`"), (["i", "l AS I"], "'I' is the name of two columns"),
        (["*", "1 AS user"], "name of two columns"), ([], "names no column"), (["i,"], "empty"), (["i AS"], "a name is missing"),
        (["round(i) AS r", "max(i) AS m"], "is an aggregate"), (["i AS a b"], "the expression ends before this"),
    ],
)  # fmt: skip
def test_misuse_of_a_selection_is_told_at_once(texts, said):
    with pytest.raises(ConfigError, match=said):
        Select(*texts).bind(ROWS.schema)


def test_a_selection_leaves_to_spark_what_only_spark_resolves():
    for texts in (["i AS x", "x + 1 AS y"], ["* EXCEPT (i)"], ["list.x"], ["i AS (a, b)"]):
        with pytest.raises(NotColumnar):
            Select(*texts).bind(ROWS.schema)


def test_a_missing_column_is_named_with_those_that_exist():
    with pytest.raises(MissingColumn, match=r"'nope' \(line 1, column 11\).*'user', 'amount'"):
        Where("flag AND (nope > 1)").bind(ROWS.schema)
    with pytest.raises(MissingColumn, match=r"backquotes: `a\.b`"):
        Where("a.b = 1").bind(ROWS.schema)
    with pytest.raises(ConfigError, match="several columns: 'A', 'a'"):
        Where("a > 1").bind(pa.schema([("A", pa.int32()), ("a", pa.int32())]))
    with pytest.raises(UnsupportedType, match="cannot be carried"):
        Select("no").bind(pa.schema([("no", NO_WAY)]))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("i + i", "overflow"), ("i / i", "divide by zero"), ("l % i", "remainder by zero"), ("-(l + 1)", "overflow"),
        ("cast(l AS INT)", "not in range"), ("ceil(1e19)", "no bigint"),
    ],
)  # fmt: skip
def test_a_failing_row_fails_the_step_with_its_expression(text, said):
    step = Select(f"{text} AS x").bind(ROWS.schema)
    with pytest.raises(StepFailed, match=said) as failure:
        step.apply(ROWS)
    assert f"`{text} AS x`" in str(failure.value)
    assert step.apply(ROWS.slice(2, 1) if "1e19" not in text else ROWS.slice(0, 0))["x"].null_count in (0, 1)


@pytest.mark.parametrize(
    "text",
    [
        "i <> 0 AND 1 / i > 0", "i = 0 OR 1 / i > 0", "if(i = 0, 0D, 1 / i)", "CASE WHEN i = 0 THEN 0D WHEN 1 / i > 0 THEN 1D END",
        "coalesce(if(i = 0, 1D, NULL), 1 / i)", "1 / nullif(i, 0)", "nullif(i, 0) + 1 / i", "coalesce(i, 1 DIV coalesce(i, 1))",
    ],
)  # fmt: skip
def test_what_spark_does_not_compute_does_not_fail(text):
    rows = pa.table({"i": pa.array([0, 1, None, 2], pa.int32())})
    assert selected(f"{text} AS x", rows=rows).num_rows == 4


def test_an_expression_of_any_size_is_computed_or_left_to_spark():
    assert kept(" OR ".join(f"`a.b` = {k}" for k in range(60))) == [1, 2, 3, 4]
    assert kept("NOT " * 60 + "flag") == [1, 4]
    deep = "`a.b`"
    for _ in range(40):
        deep = f"nullif({deep}, 7)"
    sizes = (
        "(" * 2000 + "flag" + ")" * 2000,
        " AND ".join(["flag"] * 5000),
        "NOT " * 5000 + "flag",
        f"{deep} > 1",
        "- " * 3000 + "i > 1",
    )
    for text in sizes:
        with pytest.raises(NotColumnar):
            Where(text).bind(ROWS.schema)


def test_only_needed_columns_are_asked_for_and_computed():
    where = Where("amount > 0 AND length(user) > 0").bind(ROWS.schema)
    assert where.needed(frozenset({"i"})) == frozenset({"amount", "user", "i"})
    select = Select("USER", "amount * i AS x", "1 AS one").bind(ROWS.schema)
    assert select.needed(frozenset({"x"})) == frozenset({"amount", "i"})
    assert select.needed(frozenset({"USER", "one"})) == frozenset({"user"})
    assert select.needed(frozenset({"one"})) == frozenset({"user"})  # any column counts the rows
    pruned = select.apply(ROWS.select(["user"]))
    assert pruned.schema.names == ["USER", "one"]
    assert pruned["one"].to_pylist() == [1] * 4
    assert where.apply(ROWS.select(["amount", "user"])).num_rows == 2


def test_bound_steps_travel():
    for step in (
        Where("amount > 0 OR i IN (1, 2)"),
        Select("list", "CASE WHEN flag THEN day END AS d", "1.5 AS r"),
    ):
        bound = step.bind(ROWS.schema)
        there = pickle.loads(pickle.dumps(bound))
        assert there.schema == bound.schema
        assert repr(there.apply(ROWS).to_pylist()) == repr(bound.apply(ROWS).to_pylist())


def test_neither_a_database_nor_a_parser_is_loaded():
    code = (
        "import sys, pyarrow as pa; from headgate.streams.sql_step import Where;"
        "Where('a > 1').bind(pa.schema([('a', pa.int32())])).apply(pa.table({'a': pa.array([1, 2], pa.int32())}));"
        "assert not {'duckdb', 'sqlglot', 'pyspark'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
