"""The pages about the papers have the figures of the results file."""

import json
from pathlib import Path

import pytest

from headgate_lab import reproduce
from headgate_lab.papers.claims import of_the_paper
from headgate_lab.papers.overview import headline, reason, tallies, totals
from headgate_lab.papers.page import OVERVIEW, PAGES, pages, written
from headgate_lab.papers.results import RESULTS, read, rows

ROOT = Path(__file__).parents[3]
KNOWN = read(ROOT / RESULTS)


@pytest.mark.parametrize("page", [OVERVIEW, *PAGES], ids=str)
def test_the_page_has_the_figures_of_the_results_file(page: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert written(text, *pages(ROOT)[page]) == text, "run: python -m headgate_lab.papers.page"


def test_the_results_file_has_every_figure_of_every_paper_and_counts_them_right() -> None:
    assert {paper: tuple(figures) for paper, figures in KNOWN.items()} == {
        paper: reproduce.figures(paper) for paper in reproduce.papers()
    }
    told = json.loads((ROOT / RESULTS).read_text(encoding="utf-8"))["totals"]
    assert told == totals(tallies(rows(KNOWN)))
    assert headline(tallies(rows(KNOWN))).capitalize() in " ".join((ROOT / OVERVIEW).read_text().split())


def test_no_claim_is_there_twice_and_each_that_does_not_hold_says_why() -> None:
    for claims in rows(KNOWN).values():
        ids = [claim.id for claim in claims]
        assert len(set(ids)) == len(ids)
        assert all(reason(claim) for claim in claims if of_the_paper(claim) and claim.ok is False)
