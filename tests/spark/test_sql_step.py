"""Conditions and selections give Spark's answer, in value and type, and fail on the rows on which Spark fails."""

import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from headgate.errors import StepFailed
from headgate.streams.sql_step import NotColumnar, Select, Where

NAN, INF = float("nan"), float("inf")
DAY = 86_400_000_000
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "b": (pa.int8(), [0, 1, -1, 127, -128, None, 7, -3]),
    "h": (pa.int16(), [0, 1, -1, 32767, -32768, None, 7]),
    "i": (pa.int32(), [0, 1, -1, 2**31 - 1, -(2**31), None, 7, -3, 46341, 2, 100]),
    "j": (pa.int32(), [3, 1, 0, 2, None, -7, 12]),
    "l": (pa.int64(), [0, 1, -1, 2**63 - 1, -(2**63), None, 7, -3, 2**53 + 1, 3037000500, 5]),
    "f": (pa.float32(), [0.0, -0.0, 1.5, NAN, None, INF, -INF, 1e-45, 3.4e38, 0.1, -7.25, 16777217.0, 2.0]),
    "d": (pa.float64(), [0.0, -0.0, 1.5, NAN, None, INF, -INF, 5e-324, 1.7e308, 0.1, -7.25, 2.0**53 + 2, 7.0, -0.5]),
    "e": (pa.float64(), [2.0, 0.0, NAN, -0.0, None, 1.5, -1.5, 1e18, -9.5, 1e19, 0.30000000000000004]),
    "m": (pa.decimal128(10, 2), [None, *map(Decimal, ("0.00", "1.25", "-1.50", "99999999.99", "7.00"))]),
    "n": (pa.decimal128(20, 4), [None, *map(Decimal, ("1.2500", "-1.5000", "7.0001", "0.0000"))]),
    "s": (pa.string(), ["", "a", "A", "abc", " a b ", "é", "e\u0301", "😀x", "ß", None, "\t a\n", "z\U0010ffff", "\uffff", "a%b_c"]),
    "u": (pa.string(), ["a", "", None, "b", "é", "abc", "ab", "\u00a0", "it's", "😀"]),
    "x": (pa.binary(), [b"", b"a", b"\xff", b"\x7f", None, b"ab"]),
    "y": (pa.bool_(), [True, False, None]),
    "z": (pa.bool_(), [True, None, False, False, True]),
    "dt": (pa.date32(), [0, -1, 19782, None, 11016, -719528, -719529, 2932896, 365, 59, 60, -25567, 60_000_000, -60_000_000]),
    "ts": (pa.timestamp("us", tz="UTC"), [
        0, -1, 1, 1_709_210_096_123_456, None, -DAY, DAY - 1, -62_135_596_800_000_000, 4_102_444_799_999_999, 951_782_400_000_000, 2**62,
    ]),
    "tt": (pa.timestamp("us", tz="UTC"), [0, None, 1_704_067_200_000_000, 5]),
    "nt": (pa.timestamp("us"), [0, -1, 1_709_210_096_123_456, None, 5]),
    "a.b": (pa.int32(), [1, None, 3]),
}  # fmt: skip
N = 60


def rows_of(n: int) -> pa.Table:
    """Rows in which every value meets others of the other columns."""
    chance = random.Random(7)
    columns = {"id": pa.array(range(n), pa.int32())}
    for name, (kind, values) in VALUES.items():
        picked = [values[k] if k < len(values) else chance.choice(values) for k in range(n)]
        chance.shuffle(picked)
        columns[name] = pa.array(picked, kind)
    return pa.table(columns)


ROWS = rows_of(N)
EXPRESSIONS = """
b + b; b + h; i + 1; i - l; i * i; b * 2; l * 3; l + 1L; h - 1S; b + 1Y; d + 1; f + f; f * d; f + i; l - f
d - 1.5; f + 1.5; d * 2e0; -b; -i; -l; -d; -f; +i; - i * 2; -i % 2; - -1; 2 - -3; i - -2147483648; i + NULL
d * NULL; -0.0D; -d = 0; i / j; l / 2; d / e; f / f; f / 1.5; d / 1.5; 7 / j; NULL / j; b / b; i / 0; d / 0
i % j; l % -1; b % b; d % e; f % f; f % 2; d % 0; i % j * 2; i div j; l div -1; b div b; 7 div j
i * 2 div 3 % 5; (i - 1) / (j - 3); i = j; i <> j; i < l; i <= 1; l > i; d >= i; i == 1; i != 1; b = h
f = d; f < d; f > 0.1; f >= 1.5; d > 1.5; d <= e; d < e; d = e; d <> e; d > e; d >= e; f = f; f < f; d = d
f = i; l = d; l <= 9007199254740993D; i > 1.5; l <= 2.50; 1.5 < i; 0.1 = d; m = 1.25; m > 1.255; m < n
m = n; m <> 7; m >= i; n <= l; m = m; l < n; s = u; s < u; s >= 'a'; s <> 'é'; s <= '😀'; s = 'it''s'; x = x
x < x; y = z; y < z; y <= z; y <> z; y = true; dt = dt; dt < DATE '2000-02-29'; dt >= '1970-01-01'
dt < '2024-02-29'; ts > tt; ts <= tt; ts > TIMESTAMP '2024-01-01 00:00:00'
ts <= '1970-01-01 00:00:00.000001'; ts >= '2024-01-01'; ts < DATE '2024-01-01'
ts = TIMESTAMP '1970-01-01T00:00:00'; nt = nt; nt < '2024-01-01 00:00:00'; nt >= '1970-01-01'; i = NULL
NULL < d; y = NULL; i <=> j; d <=> e; s <=> u; f <=> NULL; y <=> z; m <=> n; dt <=> dt; ts <=> tt
i <=> NULL; not s <=> u; 1 = 1 = y; 1 < 2 = y; i = j is null; i BETWEEN 0 AND 10; i not between j and 2.5
d BETWEEN 0 AND e; s BETWEEN 'a' AND 'b'; ts between '1970-01-01' and tt; i between 0 and 2 and y
dt between '1970-01-01' and date '2024-01-01'; j between 0 and 5 or z; d not between e and 1.5
i IN (1, 7, 100); i in (1L, NULL); i not in (1, 7); i NOT IN (1, NULL); d IN (0, 1.5, 7); d in (0.1, NULL)
f in (0.1, 0.0, 2); i in (1, 2.5, 100); l in (1, 9223372036854775807); s in ('a', 'é', '')
s not in ('a', NULL); dt in (DATE '1970-01-01', NULL); dt in ('1970-01-01'); m in (1.25, 7)
ts in ('1970-01-01 00:00:00'); b in (1, 2, 127); d in (-0.0D); f in (NULL); x in (NULL); l in (1.5D, 7)
i IS NULL; s IS NOT NULL; not i is null; isnull(d); isnotnull(x); d + i is null; (d > e) is null
y is null and z is null; y AND z; y OR z; NOT y; ! y; not not y; y and not z; y or z and i > 0
(y or z) and i > 0; not y and z; not (y or z); y and null; null or z; not null; y and i > 0 or z and d < 1
i > 0 AND l > 0 AND d > 0; j <> 0 AND 10 / j > 1; j = 0 OR 10 div j > 1; y OR i + i > 0; z and l * l > 0
y and 1 / j > 0; j <> 0 and 100 % j < 5 and i > 0; (i + 1) is null or y
CASE WHEN i > 0 THEN 'p' WHEN i < 0 THEN 'n' END; CASE WHEN i > 0 THEN i ELSE l END
case when y then d else i end; case i when 1 then 'one' when 7L then 's' else s end
CASE WHEN j = 0 THEN 0 ELSE 10 / j END; case when j <> 0 then 10 % j end; case when y then NULL else dt end
case when y then ts when z then tt end; case d when 0 then 1 when e then 2 else 3 end
case when y then m else m end; case when true then x end; IF(y, i, j)
if(j = 0, NULL, 7 div j); if(y, f, d); if(y, i, f); if(y and z, b, 1); if(i > 0, 'a', s); if(y, d, 1.5)
if(j > 0, i + 1, -1); if(y, z, null); coalesce(i, j); coalesce(NULL, i, l); coalesce(s, u, 'none')
coalesce(d, e, 0); coalesce(j, i + i); nvl(b, 1); ifnull(s, 'x'); coalesce(y, false); coalesce(dt, dt)
coalesce(i / j, 1); coalesce(j, 1 / 0); nullif(i, 1); nullif(b, 1); nullif(d, 0); nullif(s, '')
nullif(d, e); nullif(i, l); 10 / nullif(j, 0); nullif(i, NULL); CAST(i AS BIGINT); cast(b as int)
cast(l as double); cast(i as string); cast(l as string); cast(b AS STRING); cast(y as string)
cast(y as int); cast(f as double); cast(l as int); cast(i as smallint); cast(j as tinyint); cast(i as int)
cast(NULL as double); cast(ts as date); cast(s as string); cast(-128 as byte); cast(y as long)
cast(h as short); cast(i as long) * i; cast(i as double) / 3; cast(d as double); cast(NULL as string)
abs(b); abs(i); abs(l); abs(d); abs(f); abs(-3); sqrt(d); sqrt(i); sqrt(f); sqrt(l); floor(d); ceil(d)
floor(e); ceiling(e); floor(-0.5D); isnan(d); isnan(f); floor(nullif(e, 1e19))
ceil(if(abs(d) < 1e9, d, 0e0)); greatest(i, j); greatest(i, l, b); least(i, j, 5)
least(dt, DATE '2000-01-01'); greatest(ts, tt); greatest(NULL, i); least(b, 1); greatest(nt, nt); length(s)
char_length(u); character_length(s); len(s); length(x); concat(s, u); concat(s); s || u; s || '-' || u
concat(s, 'é', u, ''); 'a' || s = 'aa'; length(s || u) + 1; substring(s, 1, 2); substring(s, 2)
substr(s, 0, 2); substring(s, 3, 1); substring(s, 1, 0); left(s, 2); left(s, 0); substring(s, 2, 2147483647)
left(u, 100); trim(s); ltrim(s); rtrim(s); trim(u); contains(s, 'a'); startswith(s, 'a'); endswith(s, 'b ')
contains(s, ''); startswith(s, ''); endswith(s, 'é'); contains(s, '%'); s LIKE 'a%'; s like '%c'
s like '%b%'; s like 'abc'; s not like 'a%'; s like '%'; s like ''; s like '%%a'; s like '%é%'
year(dt); quarter(dt); month(dt); day(dt); dayofmonth(dt); dayofyear(dt)
dayofweek(dt); weekday(dt); year(ts); month(ts); day(ts); hour(ts); minute(ts); second(ts); dayofyear(ts)
dayofweek(ts); weekday(ts); quarter(ts); unix_seconds(ts); unix_millis(ts); unix_micros(ts); to_date(ts)
timestamp_micros(l); timestamp_micros(i); timestamp_micros(unix_micros(ts) - unix_micros(ts) % 10000000)
date(ts); to_date(dt); date(dt); date_trunc('HOUR', ts); date_trunc('day', ts); date_trunc('minute', ts)
date_trunc('second', ts); year(DATE '2024-02-29'); hour(ts) * 60 + minute(ts); `a.b` + 1; `i`; I; S || 'x'
1; -1; 1.5; -1.50; .5; 5.; 1e3; 1.5BD; 10L; 5S; 5Y; 1.5D; 2147483648; -2147483648; 9223372036854775807
-9223372036854775808; 9223372036854775808; 'x'; true; false; DATE '2024-02-29'
TIMESTAMP '2024-02-29 01:02:03.456'; 0.0; 00.10; 0010; 3BD; 1 + 1; 1 / 0; 'a' || 'b'; 2 * 3 - 4 = 2
i -- a remark
i /* another */ + 1
"""
LISTED = [text.strip() for line in EXPRESSIONS.strip().splitlines() for text in line.split("; ")]
assert len(LISTED) == len(set(LISTED))


@contextmanager
def session(spark, **settings: str) -> Iterator[None]:
    """Settings of Spark SQL for a while."""
    before = {key: spark.conf.get(f"spark.sql.{key}") for key in settings}
    for key, value in settings.items():
        spark.conf.set(f"spark.sql.{key}", value)
    yield
    for key, value in before.items():
        spark.conf.set(f"spark.sql.{key}", value)


@pytest.fixture(scope="module")
def df(spark) -> Iterator[Any]:
    """The rows in Spark. Spark shares equal expressions between columns, which then fail for all of them: not here."""
    with session(spark, **{"session.timeZone": "UTC", "subexpressionElimination.enabled": "false"}):
        made = spark.createDataFrame(ROWS.drop_columns(["a.b"])).coalesce(1)
        made = made.withColumn("nt", made["nt"].cast("timestamp_ntz"))
        cases = " ".join(f"WHEN {k} THEN {v}" for k, v in enumerate(ROWS["a.b"].to_pylist()) if v is not None)
        cached = made.selectExpr("*", f"CASE id {cases} END AS `a.b`").cache()
        assert cached.count() == N
        yield cached
        cached.unpersist()


def plain(column: pa.ChunkedArray) -> list:
    """Values as Python has them; dates and times as numbers, because Python's end with the year 9999."""
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    return column.to_pylist()


def answer(text: str, **settings: Any) -> tuple[pa.DataType, list, list[int]] | None:
    """The type of an expression, its value on each row, and the rows on which it fails; None if left to Spark."""
    try:
        step = Select(f"{text}\n AS r", **settings).bind(ROWS.schema)
    except NotColumnar:
        return None
    kind = step.schema.field("r").type
    try:
        return kind, plain(step.apply(ROWS)["r"]), []
    except StepFailed:
        pass
    values, failed = [], []
    for k in range(N):
        try:
            values += plain(step.apply(ROWS.slice(k, 1))["r"])
        except StepFailed:
            values.append(None)
            failed.append(k)
    assert failed, text
    return kind, values, failed


def check(df: Any, texts: list[str], failures: int, **settings: Any) -> int:
    """Compare answers in one job. Of the expressions that fail on some rows, that many are also run where they fail."""
    from headgate.spark.inside import checks_rounding
    from headgate.spark.types import arrow_schema

    answers = {text: found for text in texts if (found := answer(text, **settings)) is not None}
    asked = []
    for text, (_, _, failed) in answers.items():
        fine = f"id NOT IN ({', '.join(map(str, failed))})"
        asked.append(f"IF({fine}, {text}\n, NULL)" if failed else text)
    query = df.selectExpr("id", *(f"{text}\n AS c{k}" for k, text in enumerate(asked)))
    types = arrow_schema(query.schema, key=())
    rows = query.toArrow().sort_by("id")
    for k, (text, (kind, values, failed)) in enumerate(answers.items()):
        assert types.field(f"c{k}").type == kind, text
        assert repr(plain(rows[f"c{k}"])) == repr(values), (text, failed)
    raises = checks_rounding(df.sparkSession)  # otherwise `resolve` leaves floor and ceil to Spark
    failing = [
        (text, found[2][0])
        for text, found in answers.items()
        if found[2] and not REMOVABLE.search(text) and (raises or not re.search("floor|ceil", text))
    ]
    for text, row in random.Random(len(failing)).sample(failing, min(failures, len(failing))):
        with pytest.raises(Exception, match=r"ARITHMETIC_OVERFLOW|BY_ZERO|CAST_OVERFLOW"):
            df.where(f"id = {row}").selectExpr(f"{text}\n AS r").collect()
    return len(answers)


REMOVABLE = re.compile(r"true|false|null|<=>|\b(and|or|in)\b", re.IGNORECASE)
"""What lets Spark's optimiser remove a part of an expression, which then does not fail."""


@pytest.mark.parametrize("part", range(4))
def test_listed_expressions_give_sparks_answers(df, part):
    texts = LISTED[part::4]
    assert check(df, texts, failures=4) == len(texts)


def test_other_settings_give_sparks_answers_or_none(df, spark):
    zone = "America/New_York"
    with session(spark, **{"session.timeZone": zone, "ansi.enabled": "false"}):
        taken = check(df, LISTED[::3], failures=0, ansi=False, zone=zone)
    assert len(LISTED) / 6 < taken < len(LISTED) / 3


def test_conditions_keep_the_rows_that_spark_keeps(df):
    for text in (
        "d > 0", "NOT d > 0", "y OR z", "i IN (1, 7, NULL)", "i NOT IN (1, NULL)", "s >= 'a' AND d <= e",
        "j <> 0 AND 10 / j > 1", "coalesce(y, z)", "true", "false",
    ):  # fmt: skip
        kept = Where(text).bind(ROWS.schema).apply(ROWS)
        assert kept["id"].to_pylist() == sorted(row.id for row in df.where(text).select("id").collect()), text


def test_a_selection_has_sparks_names_and_types(df):
    from headgate.spark.types import arrow_schema

    items = ("*", "I AS again", "`a.b` AS dotted", "i > 0 positive")
    ours = Select(*items).bind(ROWS.schema).schema
    assert set(ours.names) == set(df.selectExpr(*items).columns)
    assert Select("I", "S").bind(ROWS.schema).schema.names == df.selectExpr("I", "S").columns
    theirs = arrow_schema(df.selectExpr(*items).schema, key=())
    assert all(theirs.field(name).type == ours.field(name).type for name in ours.names)


class Texts:
    """Random typed expressions, with no more parentheses than a person writes, and so with all precedences."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def one(self, *options: str) -> str:
        return self.chance.choice(options)

    def of(self, kind: str, depth: int) -> str:
        text: str = getattr(self, kind)(depth - 1 if depth else 0)
        return f"({text})" if self.chance.random() < 0.3 else text

    def whole(self, depth: int) -> str:
        if not depth:
            return self.one("b", "h", "i", "j", "l", "`a.b`", "1", "-3", "7L", "100", "2147483647", "0", "2S")
        a, b = self.of("whole", depth), self.of("whole", depth)
        return self.one(
            f"{a} + {b}",
            f"{a} - {b}",
            f"{a} * {b}",
            f"{a} % {b}",
            f"{a} div {b}",
            f"({a}) div nullif({b}, 0)",
            f"abs({a})",
            f"-({a})",
            f"length({self.of('text', depth)})",
            f"if({self.of('truth', depth)}, {a}, {b})",
            f"coalesce({a}, {b})",
            f"nullif({a}, {b})",
            f"CASE WHEN {self.of('truth', depth)} THEN {a} WHEN {self.of('truth', depth)} THEN {b} END",
            f"greatest({a}, {b})",
            f"CASE {a} WHEN {b} THEN {a} ELSE {b} END",
            f"cast({a} as bigint)",
            f"cast({a} as int)",
            f"least({a}, {b}, 5)",
            f"floor({self.of('real', depth)})",
            f"year({self.one('dt', 'ts')})",
            f"unix_millis({self.one('ts', 'tt')})",
            f"- {self.one('i', 'l', 'b')} % {b}",
        )

    def real(self, depth: int) -> str:
        if not depth:
            return self.one("d", "e", "1.5D", "0e0", "-2.5e0", "cast(f as double)", "cast(l as double)")
        a, b, c = self.of("real", depth), self.of("real", depth), self.of("whole", depth)
        return self.one(
            f"{a} + {b}",
            f"{a} - {c}",
            f"{a} * {b}",
            f"{a} / {b}",
            f"{c} / {a}",
            f"{a} % {b}",
            f"abs({a})",
            f"-({a})",
            f"sqrt({a})",
            f"{a} * 1.5",
            f"if({self.of('truth', depth)}, {a}, {c})",
            f"coalesce({a}, {b})",
            f"nullif({a}, {b})",
            f"{a} + f",
            f"{a} / nullif({c}, 0)",
        )

    def text(self, depth: int) -> str:
        if not depth:
            return self.one("s", "u", "'a'", "'é'", "''", "' a'", "cast(y as string)", "cast(i as string)")
        a, b = self.of("text", depth), self.of("text", depth)
        return self.one(
            f"{a} || {b}",
            f"concat({a}, {b})",
            f"substring({a}, 2, 2)",
            f"left({a}, 1)",
            f"trim({a})",
            f"ltrim({a})",
            f"rtrim({a})",
            f"coalesce({a}, {b})",
            f"if({self.of('truth', depth)}, {a}, {b})",
            f"nullif({a}, {b})",
            f"cast({self.of('whole', depth)} as string)",
        )

    def truth(self, depth: int) -> str:
        if not depth:
            return self.one(
                "y",
                "z",
                "true",
                "false",
                "i > 0",
                "d <= 1.5",
                "s = 'a'",
                "dt < '2000-01-01'",
                "ts >= tt",
                "i is null",
                "y = z",
                "m < n",
            )
        kind = self.one("whole", "real", "text", "truth")
        a, b, c = self.of(kind, depth), self.of(kind, depth), self.of(kind, depth)
        if kind == "truth":
            a, b, c = (f"({text})" for text in (a, b, c))
        p, q = self.of("truth", depth), self.of("truth", depth)
        sign = self.one("=", "<>", "<", "<=", ">", ">=", "<=>", "!=", "==")
        items = {"whole": "1, 7, -3L", "real": "1.5, 0, 7", "text": "'a', 'é'", "truth": ""}[kind]
        return self.one(
            f"{a} {sign} {b}",
            f"{a} {sign} {b}",
            f"NOT {a} {sign} {b}",
            f"{p} AND {q}",
            f"{p} OR {q}",
            f"NOT {p}",
            f"{p} and {q} or {p}",
            f"not {p} and {q}",
            f"{a} IS NULL",
            f"{a} {sign} {b} IS NULL",
            f"{a} is not null",
            f"{a} BETWEEN {b} AND {c}",
            f"{a} not between {b} and {c} or {p}",
            f"{a} IN ({items})" if items else f"{p} or {q}",
            f"{a} not in ({items}, NULL)" if items else f"{p} and {q}",
            f"contains({self.of('text', depth)}, 'a')",
            f"{self.of('text', depth)} like 'a%'",
            f"if({p}, {q}, {a} {sign} {b})",
        )


@given(seed=st.integers(0, 2**32))
@settings(max_examples=4, phases=[Phase.generate], deadline=None)
def test_random_expressions_give_sparks_answers(df, seed):
    texts = Texts(seed)
    kinds = ("whole", "real", "text", "truth", "truth")
    asked = list(dict.fromkeys(texts.of(kind, 1 + k % 3) for k in range(16) for kind in kinds))
    assert check(df, asked, failures=2) > 50
