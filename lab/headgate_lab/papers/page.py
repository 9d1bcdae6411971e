"""The figures about the papers in the docs, made from the results file:
`python -m headgate_lab.papers.page`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headgate_lab.bench.table_page import marks, placed, wrapped
from headgate_lab.papers.claims import Claim, as_text, of_the_paper
from headgate_lab.papers.overview import Tally, headline, reason, tallies
from headgate_lab.papers.results import RESULTS, read, rows

TITLES = {
    "faucet": "Faucet (Lattuada, McSherry, Chothia)",
    "flux": "Flux (Shah, Hellerstein, Chandrasekaran, Franklin)",
    "gedik": "Partitioning functions (Gedik)",
    "mice": "Mice queries (Zong, Gkantsidis, Vojnovic)",
    "mpc": "Model predictive control (Yfoulis, Gounaris)",
}
PAGES = {
    Path("docs/research/faucet.md"): "faucet",
    Path("docs/research/flux.md"): "flux",
    Path("docs/research/partitioning.md"): "gedik",
    Path("docs/research/placement.md"): "mice",
    Path("docs/research/control.md"): "mpc",
}
"""The page about each paper."""
OVERVIEW = Path("docs/research/index.md")
_WORDS = {True: "yes", False: "**no**", None: "nothing to check"}


def overview(counted: Sequence[Tally], known: Mapping[str, Mapping[str, Any]]) -> str:
    """The table of the page about all papers."""
    pages = {paper: page for page, paper in PAGES.items()}
    runs = [run["quick"] for figures in known.values() for run in figures.values()]
    scale = f"Of {len(runs)} parts {runs.count(False)} were run in full, and {runs.count(True)} with `--quick`, in a smaller world."
    lines = [
        "| paper | claims | hold | do not | nothing to check |",
        "|---|---|---|---|---|",
        *(
            f"| [{TITLES[t.paper]}]({pages[t.paper].name}) | {t.claims} | {len(t.held)} | {len(t.not_held)} | {len(t.nothing_to_check)} |"
            for t in counted
        ),
    ]
    return "\n".join([wrapped(f"{headline(counted).capitalize()}. {scale}"), "", *lines])


def claims_table(figures: Mapping[str, Any], claims: Sequence[Claim]) -> str:
    """The rows of one paper: its claims, then other readings and rows of our own."""
    tally = Tally.of("", claims)
    small = [figure for figure, run in figures.items() if run["quick"]]
    full = [figure for figure, run in figures.items() if not run["quick"]]
    said = (
        f"{tally.claims} claims: {len(tally.held)} hold, {len(tally.not_held)} do not, {len(tally.nothing_to_check)} have nothing to "
        f"check. Run in full: {', '.join(full) or 'none'}; with `--quick`: {', '.join(small) or 'none'}."
    )
    lines = [wrapped(said), "", "| row | paper | measured | holds |", "|---|---|---|---|"]
    ordered = [c for c in claims if of_the_paper(c)] + [c for c in claims if not of_the_paper(c)]
    for claim in ordered:
        why = f": {reason(claim)}" if claim.ok is False and of_the_paper(claim) else ""
        cells = (
            f"{claim.id}, {claim.setup}",
            as_text(claim.paper),
            as_text(claim.measured),
            _WORDS[claim.ok] + why,
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines)


def written(text: str, name: str, block: str) -> str:
    """A page with its made block anew."""
    return placed(text, *marks(f"papers {name}"), block)


def pages(root: Path) -> dict[Path, tuple[str, str]]:
    """Each page with the name of its block and the block."""
    known = read(root / RESULTS)
    by_paper = rows(known)
    made = {page: (paper, claims_table(known[paper], by_paper[paper])) for page, paper in PAGES.items()}
    return {OVERVIEW: ("all", overview(tallies(by_paper), known)), **made}


def main() -> None:
    """Write the pages of this checkout."""
    root = Path.cwd()
    for page, (name, block) in pages(root).items():
        path = root / page
        path.write_text(written(path.read_text(encoding="utf-8"), name, block), encoding="utf-8")


if __name__ == "__main__":
    main()
