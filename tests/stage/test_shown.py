"""What a notebook shows of a stage: HTML that needs nothing else, in which data is text and never markup."""

from html.parser import HTMLParser

import pyarrow as pa
import pytest
from tests.watch.skewed import NASTY

import headgate as hg
from headgate import agg
from headgate.control.journal import Entry
from headgate.stage.journal import Journal
from headgate.stage.shown import COLUMNS, Explanation, as_html, as_text, html_lines, html_table
from headgate.stage.stage import KeyedStage
from headgate.testing import InProcess
from headgate.testing.watches import ModelledTime
from headgate.watch.card import card
from headgate.watch.model import stage_view
from headgate.watch.record import StageRecord

ALLOWED = {
    *("div", "style", "b", "p", "pre", "table", "thead", "tbody", "tr", "th", "td"),
    *("svg", "rect", "title", "text", "line"),
}


class Parsed(HTMLParser):
    """The tags of a text, which must be closed in order, and its words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs) -> None:
        self.seen.add(tag)
        assert not [name for name, _ in attrs if name.startswith("on") or name in ("src", "href")]
        if tag != "line":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data) -> None:
        if self.open[-1:] != ["style"]:
            self.words.append(data)


@pytest.fixture(scope="module")
def stage(tmp_path_factory) -> KeyedStage[pa.Table]:
    """A stage whose key column, aggregate and hottest key are HTML, and which moved bins."""
    made = KeyedStage(
        InProcess(watch=ModelledTime(100)),
        key=NASTY,
        operator=hg.Aggregate(**{"<i>n": agg.count()}),
        checkpoint=str(tmp_path_factory.mktemp("shown") / "c"),
        sink=hg.sinks.Memory(),
        routing=hg.Routing(policy="rebuild", channels=3, bins=12),
        durable=False,
    )
    keys = [NASTY] * 300 + [f"<u>{number}" for number in range(200)]
    for batch in range(3):
        made.process(pa.table({NASTY: keys}), batch, None)
    return made


def cards(stage) -> str:
    entries = tuple(stage.journal())
    return card(stage_view(StageRecord(repr(stage.operator), stage.key, entries), now=0.0), NASTY)


@pytest.mark.parametrize(
    "shown",
    [
        lambda stage: stage.status()._repr_html_(),
        lambda stage: stage.journal()._repr_html_(),
        lambda stage: stage.explain()._repr_html_(),
        lambda stage: Explanation(NASTY)._repr_html_(),
        cards,
    ],
    ids=["status", "journal", "explain", "any text", "card"],
)
def test_names_and_keys_are_text(stage, shown) -> None:
    parsed = Parsed(shown(stage))
    assert parsed.seen <= ALLOWED
    assert "500" in "".join(parsed.words) or NASTY in "".join(parsed.words)


def test_the_hottest_key_is_in_the_card_and_in_the_explanation(stage) -> None:
    assert NASTY in "".join(Parsed(cards(stage)).words)
    pinned = next(entry for entry in stage.journal() if entry.decision.plan and entry.decision.plan.pins)
    assert isinstance(pinned, Entry)
    assert "style" in Parsed(Journal([pinned])._repr_html_()).seen


def test_a_stage_before_its_first_batch(tmp_path) -> None:
    made = KeyedStage(
        InProcess(),
        key="k",
        operator=hg.Aggregate(n=agg.count()),
        checkpoint=str(tmp_path / "c"),
        durable=False,
    )
    for shown in (made.status(), made.journal(), made.explain()):
        assert "no batch" in "".join(Parsed(shown._repr_html_()).words)
    empty = card(stage_view(StageRecord("a", ("k",)), now=0.0))
    assert "no batch yet" in "".join(Parsed(empty).words)


def test_tables_and_lines() -> None:
    table = html_table(("a", "b"), [("1", "<x>"), ("2", "y")], text=1, strong=[False, True])
    assert table == (
        '<table><thead><tr><th>a</th><th class="text">b</th></tr></thead><tbody><tr><td>1</td>'
        '<td class="text">&lt;x&gt;</td></tr><tr class="strong"><td>2</td><td class="text">y</td></tr></tbody></table>'
    )
    assert html_lines("a & b") == "<p>a &amp; b</p>"
    assert as_html("<p>x</p>").endswith("<p>x</p></div>")
    assert max(len(line) for line in as_text("word " * 50).splitlines()) <= COLUMNS


def test_an_explanation_is_a_text(stage) -> None:
    text = stage.explain()
    assert isinstance(text, str)
    assert text == str(text)
    assert text.startswith("batch 2: 500 rows")
