"""`python -m headgate_lab.site [FOLDER]` builds the site into a folder, `dist/site` by default."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from headgate_lab.site.check import faults
from headgate_lab.site.stage import staged


def build(root: Path, out: Path) -> list[str]:
    """Build the site of a checkout, and return what is wrong with it. The builder writes only below the checkout, so
    another folder gets a copy; what it holds already stays.
    """
    site, pages = root / "dist" / "site", root / "dist" / "pages"
    shutil.rmtree(site, ignore_errors=True)
    problems = staged(root, pages)
    config = (root / "mkdocs.yml").read_text(encoding="utf-8")
    made = pages.parent / "mkdocs.yml"
    made.write_text(f"{config}\ndocs_dir: {pages.name}\nsite_dir: {site}\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "--config-file", str(made)],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "NO_COLOR": "1"},
    )
    if done.returncode:
        said = (done.stdout + done.stderr).split("Traceback")[0]
        problems.append(re.sub(r"\x1b\[[0-9;]*m", "", said).strip())
    problems += faults(site)
    if out != site and not problems:
        shutil.copytree(site, out, dirs_exist_ok=True)
    return problems


def main() -> int:
    """Build, and say what is wrong."""
    root = Path(__file__).parents[3]
    out = Path(sys.argv[1] if len(sys.argv) > 1 else root / "dist" / "site").resolve()
    problems = build(root, out)
    for problem in problems:
        print(f"docs: {problem}", file=sys.stderr)
    if problems:
        return 1
    print(f"docs: {len(list(out.rglob('*.html')))} pages in {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
