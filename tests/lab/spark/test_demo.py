"""The demonstration from end to end, small, in a process of its own: it starts a Spark with many slots."""

import json
import subprocess
import sys

from headgate_lab.demo.run import first_difference

SMALL = ("--batches", "4", "--rows", "800", "--channels", "2", "--pace", "100", "--shift-every", "2")


def test_a_small_demonstration(java_home, tmp_path) -> None:
    out = tmp_path / "demo"
    words = [sys.executable, "-m", "headgate", "demo", *SMALL, "--out", str(out), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["answers_equal"] is True
    assert [lane["policy"] for lane in told["lanes"]] == ["static", "flux-load"]
    assert [lane["batches"] for lane in told["lanes"]] == [4, 4]
    assert told["lanes"][0]["moves"] == 0
    assert told["shifts"] == [2]
    assert "slept and not burnt" in told["paced"]
    assert (out / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert told["picture"] == str(out / "demo.png")
    assert "slept and not burnt" in done.stderr
    assert first_difference(out / "fixed", out / "adaptive", 4) is None
    assert not (out / "work").exists()

    again = next((out / "adaptive" / "batch=1").glob("*.parquet"))
    again.unlink()
    assert first_difference(out / "fixed", out / "adaptive", 4) == 1
