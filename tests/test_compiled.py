"""Compiled code on disk: found by the next process, made anew when what it uses changes."""

import pickle
import subprocess
import sys
from pathlib import Path

from headgate import compiled, errors


def test_what_is_compiled_is_found_by_the_next_process(tmp_path) -> None:
    script = """
import numba, headgate.compiled as c
m = c.generated("one", "from headgate.compiled import bare\\n@bare\\ndef f(x):\\n    return x + 1\\n")
print(m.f(1), sum(m.f.stats.cache_hits.values()), m.__file__)
"""
    said = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path), "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for _ in range(2)
    ]
    assert [one[:2] for one in said] == [["2", "0"], ["2", "1"]]
    assert said[0][2] == said[1][2]
    assert Path(said[0][2]).parent.parent == tmp_path


def test_generated_code_is_made_anew_when_what_it_uses_changes(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    one, two = (compiled.generated("two", "x = 1\n", module) for module in (errors, pickle))
    assert one.__file__ != two.__file__
