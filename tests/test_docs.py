"""Every page with code is run by a test, and pages, pictures and figures are those that the tree makes."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.docs import DOCS, ELSEWHERE, ROOT, WITH_SPARK, WITHOUT_SPARK
from tests.pages import has_code, played
from typer.main import get_command

from headgate import policies
from headgate.cli import app
from headgate.stage.settings import BINS_PER_CHANNEL, DEFAULT_POLICY, FEWEST_BINS
from headgate_lab.papers import results
from headgate_lab.papers.claims import of_the_paper
from headgate_lab.papers.page import PAGES
from headgate_lab.site import api, check, commands, errors_page, proof
from headgate_lab.site.drawings import DRAWN, drawn

ALL = {page.relative_to(DOCS).as_posix(): page for page in sorted(DOCS.rglob("*.md"))}


def test_every_page_with_code_is_run_by_a_test() -> None:
    listed = [*WITH_SPARK, *WITHOUT_SPARK, *ELSEWHERE]
    assert sorted(listed) == sorted(set(listed)), "a page is listed twice"
    assert sorted(listed) == sorted(name for name, page in ALL.items() if has_code(page))
    for name, test in ELSEWHERE.items():
        assert name.split("/")[-1].removesuffix(".md") in (ROOT / test).read_text(), (
            f"{test} does not name {name}"
        )


@pytest.mark.parametrize("name", WITHOUT_SPARK)
def test_a_page_without_spark_runs_and_prints_what_it_shows(
    name: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert played(ALL[name], {"__name__": "page"}, tmp_path) == ALL[name].read_text()


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_the_one_that_is_drawn(name: str) -> None:
    """If this fails: python -m headgate_lab.site.drawings"""
    assert (DOCS / "img" / f"{name}.svg").read_text(encoding="utf-8") == drawn(name)


@pytest.mark.parametrize("page", proof.PAGES, ids=str)
def test_the_figures_of_a_page_are_those_of_the_results(page: Path) -> None:
    """If this fails: python -m headgate_lab.site.proof"""
    name, made = proof.PAGES[page]
    text = (ROOT / page).read_text(encoding="utf-8")
    assert proof.written(text, name, made(ROOT)) == text


def test_the_readme_counts_the_claims_of_the_papers_and_every_other_one_has_its_reason() -> None:
    """Counted from the rows of the file, not by its totals."""
    papers = results.rows(results.read(ROOT / results.RESULTS))
    claims = [(paper, row) for paper, found in papers.items() for row in found if of_the_paper(row)]
    held = sum(row.ok is True for _, row in claims)
    said = f"five papers, {len(claims)} claims, {held} hold, each of the rest with its reason"
    assert said in (ROOT / "README.md").read_text()
    assert len(papers) == 5
    shown = {paper: (ROOT / page).read_text() for page, paper in PAGES.items()}
    for paper, row in claims:
        if row.ok is not True:
            (line,) = re.findall(rf"^\| {row.id}, .*$", shown[paper], re.M)
            assert re.search(r"\*\*no\*\*: \S|nothing to check \|$", line), line


def test_the_readme_is_short_and_the_glossary_too() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 120
    words = re.findall(r"^\| (?!word|-)", ALL["faq/glossary.md"].read_text(), re.M)
    assert 20 <= len(words) <= 30


def test_a_page_is_in_the_navigation_and_all_of_the_navigation_exists() -> None:
    named = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    assert set(ALL) <= named


def test_the_page_about_policies_has_all_of_them_and_the_right_default() -> None:
    rows = re.findall(r"^\| `([\w-]+)`( \(default\))? \|", ALL["understand/policies.md"].read_text(), re.M)
    assert {name for name, _ in rows} == set(policies.names())
    assert [name for name, mark in rows if mark] == [DEFAULT_POLICY]


def test_the_defaults_that_pages_name_are_those_of_the_code() -> None:
    guard, policy_page = policies.Guard(), " ".join(ALL["understand/policies.md"].read_text().split())
    assert f"must gain at least {guard.min_gain:.0%}" in policy_page
    assert (guard.cool_down_batches, "waits two batches" in policy_page) == (2, True)
    bins = " ".join(ALL["understand/key-bin-channel.md"].read_text().split())
    assert f"{FEWEST_BINS} at least, and {BINS_PER_CHANNEL} for each channel" in bins


def shown_commands() -> list[tuple[str, str]]:
    """Page and command, of every line `headgate ...` in a block of shell and every such text in a sentence."""
    found = []
    for name, page in [*ALL.items(), ("README.md", ROOT / "README.md")]:
        text = page.read_text()
        blocks = re.findall(r"^```(?:sh|console)?\n(.*?)^```", text, re.S | re.M)
        lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
        texts = [" ".join(line.split()) for line in re.findall(r"`(headgate [^`]+)`", text)]
        found += [(name, line) for line in [*lines, *texts] if re.match(r"headgate [a-z-]", line)]
    return found


def test_every_command_on_a_page_exists_with_its_options() -> None:
    tree: Any = get_command(app)
    wrong = []
    for name, line in shown_commands():
        words = shlex.split(re.sub(r"[\[\]]", " ", line), comments=True)[1:]
        command = tree
        while hasattr(command, "commands") and words:
            word = words.pop(0)
            command = command.commands.get(word, None)
            if command is None:
                wrong.append(f"{name}: {line}: there is no command {word}")
                break
        if command is not None and not hasattr(command, "commands"):
            known = {option for one in command.params for option in [*one.opts, *one.secondary_opts]} | {
                "--help"
            }
            wrong += [
                f"{name}: {line}: {word}"
                for word in words
                if re.match(r"--[a-z]", word) and word not in known
            ]
    assert wrong == []
    assert len(shown_commands()) > 100


def test_every_error_has_a_remedy() -> None:
    problems: list[str] = []
    page = errors_page.pages(problems)["reference/errors.md"]
    assert problems == []
    assert "CheckpointMismatch" in page


def test_the_reference_of_commands_has_every_command() -> None:
    page = commands.pages()["reference/cli.md"]
    assert {"## headgate watch", "## headgate query", "### headgate query add"} <= set(page.splitlines())


def test_a_name_without_a_docstring_is_a_problem() -> None:
    problems: list[str] = []

    def nothing(x: int) -> None: ...

    assert list(api._value("hg.nothing", nothing, problems))
    assert problems == ["reference/api: hg.nothing has no docstring"]


def test_a_broken_site_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="gone.html">x</a><a href="b.html#no">x</a><a href="b.html#yes">x</a>'
        '<script src="https://cdn.example.com/x.js"></script>'
    )
    (tmp_path / "b.html").write_text('<h1 id="yes">b</h1>')
    assert check.faults(tmp_path) == [
        "a.html loads https://cdn.example.com/x.js from elsewhere",
        "a.html: the link gone.html leads nowhere",
        "a.html: the anchor b.html#no does not exist",
    ]


@pytest.mark.full
def test_the_recorded_run_is_that_of_the_simulator() -> None:
    """If this fails: python -m headgate_lab.site.recorded_run"""
    from headgate_lab.site.recorded_run import as_script, record

    assert (DOCS / "assets/recorded-run.js").read_text(encoding="utf-8") == as_script(record())


@pytest.mark.full
def test_a_browser_asks_nobody_else_and_logs_no_error(tmp_path: Path) -> None:
    from headgate_lab.site.__main__ import build
    from headgate_lab.site.look import CHROMIUM, look

    if not Path(CHROMIUM).exists():
        pytest.skip("needs Chromium")
    assert build(ROOT, tmp_path / "site") == []
    assert look(tmp_path / "site", None) == []
