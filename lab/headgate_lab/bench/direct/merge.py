"""Puts the results of parts together: `python -m headgate_lab.bench.direct.merge [FOLDER] [PICTURES]`.

It prints the table, and with a second folder draws `direct-speed` there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rich.console import Console

from headgate.errors import ConfigError, HeadgateError
from headgate_lab.bench.direct import RESULTS
from headgate_lab.bench.direct.report import Found, reported
from headgate_lab.bench.direct.works import PARTS
from headgate_lab.bench.result import Goal, Report, Result


def merged(folder: Path) -> Report:
    """One report of all parts in a folder, in the order of the bench."""
    files = {part: folder / f"direct-{part}.json" for part in PARTS}
    texts = [json.loads(file.read_text(encoding="utf-8")) for file in files.values() if file.exists()]
    if not texts:
        raise ConfigError(f"{folder} has no direct-PART.json: run headgate bench direct first")
    founds = [Found(tuple(map(_result, text["results"])), tuple(map(_goal, text["goals"]))) for text in texts]
    where = {name: value for name, value in texts[0]["machine"].items() if name not in ("quick", "load")}
    load = max(text["machine"].get("load", 0) for text in texts)
    return reported(founds, where | {"load": load}, quick=any(text["machine"]["quick"] for text in texts))


def _result(text: dict[str, object]) -> Result:
    fields = {name: value for name, value in text.items() if name != "ratio"}
    return Result(**fields)  # type: ignore[arg-type]


def _goal(text: dict[str, str]) -> Goal:
    """A goal from its words, such as `<= 5 s`."""
    sign, bound = text["goal"].split(" ", 1)
    unit = bound.lstrip("0123456789.e+-")
    number = float(bound[: len(bound) - len(unit)])
    return Goal(text["name"], number, float(text["measured"]), at_most=sign == "<=", unit=unit)


def main() -> None:
    """Print the table, and draw the picture if a folder is given."""
    try:
        report = merged(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS)
    except HeadgateError as error:
        sys.exit(str(error))
    if len(sys.argv) > 2:
        report.save_picture(Path(sys.argv[2]))
    Console(highlight=False, markup=False).print(report.as_table())


if __name__ == "__main__":
    main()
