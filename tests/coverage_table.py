"""Prints the branch coverage that `script/test --coverage` measured, by package; with --write, into CONTRIBUTING.md too."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / ".venv" / "coverage" / "data"
PAGE = ROOT / "CONTRIBUTING.md"
TABLE = re.compile(r"(<!-- coverage -->\n).*?(<!-- /coverage -->)", re.S)


def coverage(*arguments: str) -> None:
    environment = {**os.environ, "COVERAGE_FILE": str(DATA)}
    subprocess.run([sys.executable, "-m", "coverage", *arguments], cwd=ROOT, env=environment, check=True)


def by_package(files: dict[str, dict[str, dict[str, int]]]) -> dict[str, dict[str, int]]:
    """Package -> lines and branches, all of them and those that ran."""
    sums: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for name, file in files.items():
        parts = Path(name).relative_to("src/headgate").parts
        package = f"{parts[0]}/" if len(parts) > 1 else "(modules at the top)"
        for row in (package, "all"):
            for kind in ("num_statements", "covered_lines", "num_branches", "covered_branches"):
                sums[row][kind] += file["summary"][kind]
    return sums


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f}%" if whole else ""


def table_of(sums: dict[str, dict[str, int]]) -> str:
    lines = ["| package | lines | covered | branches | covered |", "|---|--:|--:|--:|--:|"]
    for package in [*sorted(sums.keys() - {"all"}), "all"]:
        total = sums[package]
        lines.append(
            f"| {package} | {total['num_statements']} | {percent(total['covered_lines'], total['num_statements'])} "
            f"| {total['num_branches']} | {percent(total['covered_branches'], total['num_branches'])} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    if list(DATA.parent.glob(f"{DATA.name}.*")):
        coverage("combine", "--quiet", "--append")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "coverage.json"
        coverage("json", "--quiet", "-o", str(report))
        table = table_of(by_package(json.loads(report.read_text())["files"]))
    print(table, end="")
    if "--write" in sys.argv[1:]:
        PAGE.write_text(TABLE.sub(lambda found: found[1] + table + found[2], PAGE.read_text()))


if __name__ == "__main__":
    main()
