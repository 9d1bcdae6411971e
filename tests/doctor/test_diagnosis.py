"""The whole diagnosis of a log that was made by hand; `tests/spark/test_doctor.py` has real ones."""

import json

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from tests.doctor import logs

from headgate.cli.doctor_text import as_text
from headgate.doctor.costs import Cost, Costs
from headgate.doctor.diagnosis import examine
from headgate.doctor.events import read_events
from headgate.doctor.keys import counted, read_sample
from headgate.doctor.operators import KINDS
from headgate.doctor.porting import porting_steps
from headgate.doctor.predict import IDLE
from headgate.errors import ConfigError, MissingColumn

COSTS = Costs({kind: Cost(20.0, 0.5, 0.5, 0.4) for kind in KINDS}, "a model")
SKEWED = [[10, 10, 970, 10]] * 8


def examined(events, **options):
    return examine(read_events(logs.lines(events), "the log"), "the log", COSTS, **options)


def printed(found) -> str:
    terminal = Console(width=80, markup=False, highlight=False)
    with terminal.capture() as capture:
        terminal.print(as_text(found))
    text = capture.get()
    assert max(map(len, text.splitlines())) <= 80
    return text


def test_a_skewed_job_is_told_what_holds_it_back_and_what_would_help() -> None:
    found = examined(logs.log(SKEWED))
    text = " ".join(printed(found).split())
    assert "partition 2 held 4 batches back, with 97% of the rows" in text
    assert "time 3.88, rows 3.88" in text
    assert "adaptive (default)" in text
    assert "headgate would help: about" in text
    assert 'groupBy().agg() becomes .key_by("user").aggregate(' in text
    assert 'hg.read(spark).files("/in", schema="...")' in text
    json.dumps(found.as_json(), allow_nan=False)


def test_a_balanced_job_with_little_to_gain_is_told_that_headgate_would_not_help() -> None:
    slow = Costs({kind: Cost(2000.0, 0.5, 0.5, 0.4) for kind in KINDS}, "a slow machine")
    application = read_events(logs.lines(logs.log([[100, 100]] * 8)), "the log")
    (diagnosis,) = examine(application, "the log", slow).diagnoses
    verdict = diagnosis.prediction.verdict
    assert not verdict.helps
    assert verdict.speedup is not None
    assert verdict.speedup < 1
    assert "balanced" in verdict.reasons[0]
    assert "headgate would not help" in printed(examine(application, "the log", slow))


def test_a_job_that_mostly_waits_is_told_so() -> None:
    found = examined(logs.log([[100, 100]] * 8))
    (diagnosis,) = found.diagnoses
    assert diagnosis.findings.busy < IDLE
    assert not diagnosis.prediction.verdict.helps
    assert "trigger decides" in diagnosis.prediction.verdict.reasons[-1]


def test_a_query_without_state_has_nothing_to_route() -> None:
    events = [*logs.START]
    for batch in range(4):
        events += [logs.stage(batch, batch), logs.task(batch, batch, 0, rows=5, ms=5)]
        events.append(logs.progress(batch, rows=5, ms=9, operator=""))
    (diagnosis,) = examined([*events, logs.END]).diagnoses
    assert not diagnosis.prediction.verdict.helps
    assert "no stateful operator" in diagnosis.prediction.verdict.reasons[0]
    assert diagnosis.steps == ()


def test_a_recording_of_progress_alone_has_no_skew_and_still_a_prediction() -> None:
    events = [logs.progress(batch, rows=1000, ms=900, operator="dedupe") for batch in range(6)]
    found = examined(events)
    (diagnosis,) = found.diagnoses
    assert diagnosis.prediction.default is not None
    assert "the recording has no tasks" in printed(found)
    assert any("dedup" in step for step in diagnosis.steps)


def test_a_log_that_stops_early_is_read_with_a_warning() -> None:
    found = examined(logs.log([[10, 10]] * 3, ended=False))
    assert "the log stops before its application does" in found.warnings[0]
    assert "fewer than 6 batches" in found.warnings[1]


def test_a_batch_job_is_refused() -> None:
    job = {"Event": "SparkListenerJobStart", "Job ID": 0, "Properties": {"spark.sql.execution.id": "1"}}
    with pytest.raises(ConfigError, match="the log of a batch job"):
        examined([*logs.START, job, logs.END])


def test_a_log_without_streaming_is_refused() -> None:
    with pytest.raises(ConfigError, match="no streaming query with rows"):
        examined([*logs.START, logs.END])
    with pytest.raises(ConfigError, match="has not ended"):
        examined(logs.START)


def test_a_query_is_chosen_by_name() -> None:
    assert len(examined(logs.log(SKEWED), query="orders").diagnoses) == 1
    with pytest.raises(ConfigError, match="it has orders"):
        examined(logs.log(SKEWED), query="none")


ROWS = pa.table({"user": pa.array([7] * 60 + list(range(100, 140)), pa.int64()), "x": [1.0] * 100})


@pytest.mark.parametrize("suffix", ["parquet", "csv", "json"])
def test_a_sample_names_the_hot_keys_and_their_partitions(suffix, tmp_path) -> None:
    file = tmp_path / f"rows.{suffix}"
    if suffix == "parquet":
        pq.write_table(ROWS, file)
    elif suffix == "csv":
        pa.csv.write_csv(ROWS, file)
    else:
        file.write_text("".join(json.dumps(row) + "\n" for row in ROWS.to_pylist()))
    for path in (file, tmp_path):
        sample = read_sample(str(path), ("user",), 200)
        assert (sample.rows, len(sample.counts), sample.hot[0].key, sample.hot[0].share) == (
            100,
            41,
            "7",
            0.6,
        )
        assert sample.hot[0].partition == 11
    text = printed(examined(logs.log(SKEWED), sample=str(file)))
    assert "7 60.0%" in " ".join(text.split())


def test_a_sample_without_the_key_is_refused(tmp_path) -> None:
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    with pytest.raises(MissingColumn, match="it has user, x"):
        read_sample(str(tmp_path), ("order",), 2)
    with pytest.raises(MissingColumn, match="needs the key's columns"):
        read_sample(str(tmp_path), (), 2)
    with pytest.raises(ConfigError, match="no such file"):
        read_sample(str(tmp_path / "none"), ("user",), 2)
    (tmp_path / "rows.txt").write_text("x")
    with pytest.raises(ConfigError, match=r"give a .parquet"):
        read_sample(str(tmp_path / "rows.txt"), ("user",), 2)


def test_keys_of_several_columns_and_of_types_that_are_not_hashed() -> None:
    rows = pa.table({"a": ["x", "x", None], "b": pa.array([1, 1, 2], pa.int32())})
    sample = counted(rows, 4, where="here")
    assert sample.hot[0].key == "x, 1"
    assert sample.hot[0].partition in range(4)
    odd = counted(pa.table({"a": [1.5, 1.5]}), 4, where="here")
    assert odd.hot[0].partition is None


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_port(kind) -> None:
    entry = KINDS[kind]
    assert "key_by" in entry.port.format(key='"user"')


@pytest.mark.parametrize(
    ("source", "reader"),
    [("KafkaV2[Subscribe[orders]]", ".kafka("), ("DeltaSource[/t]", '.delta("/t")'), ("Other", ".reader(")],
)
def test_the_reader_of_a_source(source, reader) -> None:
    (diagnosis,) = examined(logs.log(SKEWED)).diagnoses
    assert reader in porting_steps(diagnosis.findings, (), source)[0]
