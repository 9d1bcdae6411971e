"""`headgate doctor` on logs made by hand; `tests/spark/test_doctor.py` has real ones."""

import json

import pytest
from tests.doctor import logs


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = tmp_path / "local-1"
    file.write_bytes(b"\n".join(logs.lines(logs.log([[10, 10, 970, 10]] * 8))))
    return file


def test_a_log_is_diagnosed(call, log) -> None:
    done = call("doctor", str(log))
    assert done.exit_code == 0, done.output
    assert "headgate would help" in done.stdout
    data = json.loads(call("doctor", str(log), "--json").stdout)
    (query,) = data["queries"]
    assert query["prediction"]["verdict"]["helps"] is True
    assert data["application"] == {"id": "local-1", "name": "orders", "spark": "4.1.0", "cores": 4}


def test_more_cores_are_predicted_on_request(call, log) -> None:
    few, many = (
        json.loads(call("doctor", str(log), "--json", "--cores", cores).stdout)["queries"][0]["prediction"]
        for cores in ("1", "16")
    )
    assert few["policies"][0]["batch_ms"] > many["policies"][0]["batch_ms"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "headgate doctor --calibrate"),
        (["none"], "does not exist"),
        (["{log}", "--query", "none"], "it has orders"),
        (["{log}", "--sample", "a", "--state", "b"], "not both"),
        (["{log}", "--costs", "none.json"], "cannot be read"),
        (["{log}", "--sample", "none.parquet"], "no such file"),
    ],
)
def test_misuse_is_named(words, message, call, log) -> None:
    done = call("doctor", *(word.format(log=log) for word in words))
    assert done.exit_code == 1
    assert message in done.output
