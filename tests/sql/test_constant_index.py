"""Indexes over constants: what they leave out has no result."""

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sql.test_shared import JOIN
from tests.sql.world import ENGINE, NAMES, Server, at_seconds, batches_of, rows_of

from headgate.sql.constant_index import JoinIndex, open_labels, present, touched
from headgate.sql.engine import Engine
from headgate.sql.shared import step
from headgate.sql.text import shape_of


def as_counter(table):
    return Counter(map(str, table.to_pylist())) if table is not None else Counter()


class Indexed(Server):
    """Carries out each work with the index and without it, and compares."""

    left_out = 0

    def carried_out(self, work):
        given = ENGINE._given
        plain = step(work, ENGINE)
        ENGINE.give(fresh=given["fresh"], kept=given["kept"], lately=given["lately"])
        index = JoinIndex.of(given["fresh"], given["kept"], len(NAMES))
        for lead in range(min(work.leads, work.template.sources)):
            found = index.candidates(work.template, work.touched, lead)
            self.left_out += work.touched.num_rows - found.num_rows
        done = step(replace(work, joining=index, present=present(work.rows, len(NAMES))), ENGINE)
        assert as_counter(done.results) == as_counter(plain.results)
        assert {label: as_counter(t) for label, t in done.written.items()} == {
            label: as_counter(t) for label, t in plain.written.items()
        }
        assert done.gone == plain.gone
        return done


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(-4, 4), st.integers(0, 4))
def test_joins_have_the_same_results_with_the_index(seed, before, after) -> None:
    rng = np.random.default_rng(seed)
    server = Indexed()
    bound = (
        f"b.time BETWEEN a.time - INTERVAL '{max(before, 0)} seconds' AND a.time + INTERVAL '{after} seconds'"
    )
    third = "JOIN gamma c ON c.n = b.n AND c.time BETWEEN a.time AND a.time + INTERVAL '4 seconds'"
    texts = [
        f"SELECT a.time, b.x FROM alpha a JOIN beta b ON a.city = b.city AND {bound} WHERE a.x > 1",
        f"SELECT a.time, b.x FROM gamma a JOIN alpha b ON a.n = b.n AND {bound}",
        f"SELECT a.time, c.time {JOIN} {third}",
        f"SELECT a.city, count(*) {JOIN} GROUP BY a.city, TUMBLE(a.time, INTERVAL '10 seconds')",
    ]
    for number, text in enumerate(texts):
        server.add(number, text)
    rows = rows_of(rng, 90)
    for batch in batches_of(rows, rng.integers(0, 90, 4).tolist()):
        server.feed(batch)


def test_earlier_rows_that_no_new_row_can_meet_cost_no_statement(monkeypatch) -> None:
    server = Server()
    bound = "b.time BETWEEN a.time - INTERVAL '2 seconds' AND a.time"
    template = server.add(1, f"SELECT b.x FROM alpha a JOIN beta b ON {bound}")
    earlier, new = at_seconds((0, 10), (1, 10)), at_seconds((0, 12), (1, 12))
    index = JoinIndex.of(new, earlier, len(NAMES))
    server.feed(earlier)
    asked = list[str]()
    ask = Engine.ask

    def counted(self, sql, **tables):
        asked.append(sql)
        return ask(self, sql, **tables)

    monkeypatch.setattr(Engine, "ask", counted)
    monkeypatch.setattr(server, "carried_out", lambda work: step(replace(work, joining=index), ENGINE))
    server.feed(new)
    assert len(asked) == 1  # led by alpha; a new row of beta meets no earlier row of alpha
    assert index.candidates(template, server.table(template.key), 1).num_rows == 0


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 50), st.integers(0, 5), st.integers(0, 3)), max_size=30
    ),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 60)), max_size=9),
    st.integers(1, 20),
)
def test_the_labels_that_stay_open_are_those_of_the_plain_statement(pieces, known, size) -> None:
    columns = list(zip(*pieces, strict=True)) or [(), (), (), ()]
    names = ("id", "pane", "batch", "home")
    table = pa.table({n: pa.array(c, pa.int64()) for n, c in zip(names, columns, strict=True)})
    order = np.random.default_rng(len(pieces)).permutation(len(known)).tolist()
    constants = pa.table(
        {
            "id": pa.array(order, pa.int64()),
            "born": pa.array([known[i][0] for i in order], pa.int64()),
            "new": pa.array([known[i][1] for i in order], pa.int64()),
        }
    )
    plain = (
        "SELECT DISTINCT p.home AS home FROM pieces p JOIN constants c ON p.id = c.id AND p.batch >= c.born "
        f"WHERE p.pane + {size} > c.new"
    )
    expected = set(ENGINE.ask(plain, pieces=table, constants=constants).column("home").to_pylist())
    assert open_labels(table, constants, size) == expected


def test_only_computations_whose_source_has_rows_are_touched() -> None:
    server = Server()
    template = server.add(1, "SELECT x FROM alpha WHERE n = 1")
    server.add(2, "SELECT x FROM beta WHERE n = 1")
    found = touched(template, server.table(template.key), present(at_seconds((1, 3)), 3))
    assert found.column("id").to_pylist() == [2]


SLOW = re.compile(
    r"""(?P<string>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")*")
      | (?P<number>(?<!\w)(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<named>\b(?:FROM|JOIN)\s+)(?P<source>[^\W\d]\w*)
    """,
    re.VERBOSE | re.IGNORECASE,
)
PARTS = ["'", '"', "1", "2.5", ".5", "e", "E", "-", "+", "FROM ", "from\n", "JOIN  ", "join", "f", "J", "x", "_", ".",
         " ", "''", "é", "٣", "1e5", "a1", "\n", "(", "fx", "from x1"]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=14))
def test_the_fast_pass_finds_what_the_plain_expression_finds(parts) -> None:
    text = "".join(parts)
    shape = shape_of(text)
    matches = list(SLOW.finditer(text))
    literals = [(m.start(), m[0]) for m in matches if m.lastgroup in ("string", "number")]
    assert [(literal.start, literal.text) for literal in shape.literals] == literals
    assert list(shape.sources) == [m["source"].lower() for m in matches if m.lastgroup == "source"]


@pytest.mark.parametrize("text", ["SELECT x FROM a WHERE x > 1 AND c = 'it''s'", 'SELECT "from" FROM b'])
def test_a_shape_with_its_parts_in_place_is_the_text(text) -> None:
    shape = shape_of(text)
    parts = [*(literal.text for literal in shape.literals), *shape.sources]
    assert len(re.findall(r"\?[tbdv]", shape.text)) == len(parts)
