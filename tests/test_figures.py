"""Every measured figure on a page comes from a results file, and every page is what those files say now."""

import re
from pathlib import Path

import pytest
from tests.docs import DOCS, ROOT

from headgate_lab.bench.direct.merge import merged
from headgate_lab.site import figures
from headgate_lab.site.loose import KINDS, allowed, loose

PAGES = {
    page.relative_to(DOCS if page.is_relative_to(DOCS) else ROOT).as_posix(): page
    for page in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
}
WRITE = "run: python -m headgate_lab.site.figures"


@pytest.fixture(scope="module")
def made() -> dict[Path, str]:
    return figures.written(ROOT)


def test_every_figure_is_that_of_its_results_file(made: dict[Path, str]) -> None:
    stale = [str(page) for page, text in made.items() if (ROOT / page).read_text(encoding="utf-8") != text]
    assert stale == [], WRITE


def test_every_made_table_has_a_writer() -> None:
    texts = {page: page.read_text(encoding="utf-8") for page in PAGES.values()}
    region = re.compile(r"(<!-- ([\w ]+): begin -->).*?(<!-- \2: end -->)", re.S)
    assert sum(len(region.findall(text)) for text in texts.values()) > 25
    emptied = {page: region.sub(r"\1 an old figure \3", text) for page, text in texts.items()}
    for page, write in figures.writers(ROOT):
        emptied[ROOT / page] = write(emptied[ROOT / page])
    assert [str(page) for page, text in emptied.items() if "an old figure" in text] == []


@pytest.mark.parametrize("name", PAGES)
def test_a_figure_that_looks_measured_has_a_results_file_or_is_listed_as_something_else(name: str) -> None:
    """If this fails: mark the figure (`headgate_lab.site.figures`), delete it, or say in `not_measured.toml` what it is."""
    entries = allowed().get(name, {})
    assert set(entries) <= set(KINDS)
    found, idle = loose(name, PAGES[name].read_text(encoding="utf-8"), entries)
    assert [str(one) for one in found] == []
    assert idle == [], "not_measured.toml has words that explain no figure of the page"


def test_the_list_names_pages_that_exist() -> None:
    assert set(allowed()) <= set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_marks_are_whole_and_inside_of_a_line(name: str) -> None:
    text = PAGES[name].read_text(encoding="utf-8")
    assert text.count("<!--=") == text.count("<!--/-->") == len(figures.MARK.findall(text))
    assert not re.search(r"^\s*<!--=", text, re.M), (
        "Markdown takes a comment at the start of a line for a block"
    )


@pytest.mark.parametrize(
    "text",
    [
        "It is 1.56x as slow.",
        "A batch takes 0.86 s.",
        "| q3 | 35,372 |",
        "It reads 22,300/s.",
        "It needs 12% more,\nand 3.2 GB.",
        "| step | 1.04 / 1.03 |",
    ],
)
def test_a_planted_figure_is_found(text: str) -> None:
    assert loose("page.md", text, {})[0]


@pytest.mark.parametrize(
    "text",
    [
        "Spark 4.1, 4.2 and 4.3; Python 3.11 to 3.14.",
        "Eight channels, 128 bins, 10,000 rows.",
        "`timeout=1.5 s`",
        "```sh\nsleep 1.5 s\n```\n",
        "It is <!--= tenants; the same, median; ratio; .2f -->1.07<!--/--> times as long.",
        "[text](a.md#1.5x)",
    ],
)
def test_what_is_not_measured_is_not_found(text: str) -> None:
    assert loose("page.md", text, {})[0] == []


def test_a_figure_that_was_changed_by_hand_is_put_right(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(
        '{"results": [{"name": "n", "rival": null, "value": 2.345}], "goals": []}'
    )
    wrong = "a <!--= b; n; value; .1f -->9.9<!--/--> b"
    assert figures.in_sentences(wrong, tmp_path) == "a <!--= b; n; value; .1f -->2.3<!--/--> b"
    with pytest.raises(ValueError, match="has 0 values"):
        figures.in_sentences(wrong.replace("; n;", "; m;"), tmp_path)


def test_what_the_page_about_performance_says_in_words_is_so() -> None:
    """It says "at least three times as fast on every work", "more than a hundred times", "one goal is missed"."""
    report = merged(ROOT / "benchmarks/results")
    rates = {
        one.name: one.ratio
        for one in report.results
        if one.unit == "rows/s" and str(one.rival).startswith("native")
    }
    assert min(ratio for ratio in rates.values() if ratio is not None) >= 3
    assert all((rates[name] or 0) > 100 for name in ("z-score kernel", "history window, k = 100"))
    missed = [goal.name for goal in report.goals if not goal.ok and "answers" not in goal.name]
    assert [name.partition(",")[0] for name in missed] == ["hopping windows"]
