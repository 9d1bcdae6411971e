"""Query, checkpoint and output belong together: whatever was deleted, mistyped or mixed up is an error, and no row is lost without one."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.stages import stage_of
from tests.spark.streams import run_query, write_file

import headgate as hg
from headgate import agg, errors

SCHEMA = "k long, v long"


def rows_of(number: int) -> pa.Table:
    return pa.table({"k": pa.array(range(40), pa.int64()), "v": pa.array([number] * 40, pa.int64())})


class Job:
    """A query over files, one a batch, with all its folders in one place."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder, self.files = spark, folder, 0

    def path(self, name: str) -> Path:
        return self.folder / name

    def stage(self, **options: Any) -> Any:
        settings = {
            "key": "k",
            "operator": hg.Aggregate(n=agg.count(), total=agg.sum("v")),
            "channels": 2,
            "bins": 8,
            "checkpoint": str(self.path("ckpt")),
            "sink": hg.sinks.Parquet(str(self.path("out"))),
            "durable": False,
        }
        return stage_of(**{**settings, **options})

    def run(self, stage: Any = None, *, new_files: int = 0, checkpoint: str = "spark") -> Any:
        for _ in range(new_files):
            write_file(self.path("in"), self.files, rows_of(self.files))
            self.files += 1
        return run_query(self.spark, self.path("in"), SCHEMA, stage or self.stage(), self.path(checkpoint))

    def refused(self, text: str, stage: Any = None, **options: Any) -> None:
        with pytest.raises(Exception, match=text):
            self.run(stage, **options)

    def counts(self) -> dict[int, int]:
        """The newest count of each key, as a reader of the folder has it."""
        rows = self.spark.read.parquet(str(self.path("out"))).collect()
        return {row.k: row.n for row in sorted(rows, key=lambda row: row.batch)}


@pytest.fixture
def job(spark: Any, tmp_path: Path) -> Job:
    return Job(spark, tmp_path)


def every(n: int) -> dict[int, int]:
    return dict.fromkeys(range(40), n)


@pytest.mark.parametrize("lost", ["ckpt", "ckpt/log", "mistyped"])
def test_a_lost_stage_checkpoint_beside_sparks_is_refused(job: Job, lost: str) -> None:
    job.run(new_files=2)
    options = {}
    if lost == "mistyped":
        options = {"checkpoint": str(job.path("ckpd"))}
    else:
        shutil.move(job.path(lost), job.path("backup"))
    text = "holds no commit, but .*journal has batches" if lost == "ckpt/log" else r"Stage\(first_batch=2\)"
    state = sorted(job.path("ckpt").glob("state/*"))
    job.refused(text, job.stage(**options), new_files=1)
    assert sorted(job.path("ckpt").glob("state/*")) == state, "nothing was removed"
    assert not job.path("ckpd").exists()
    if lost != "mistyped":
        if job.path(lost).exists():
            shutil.rmtree(job.path(lost))
        shutil.move(job.path("backup"), job.path(lost))
    job.run()
    assert job.counts() == every(3)


def test_a_stage_may_begin_in_the_midst_of_a_query_if_that_is_said(job: Job) -> None:
    job.run(lambda df, batch: None, new_files=2)
    job.refused(r"Stage\(first_batch=2\)", new_files=1)
    job.refused("first_batch=1 says", job.stage(first_batch=1))
    job.run(job.stage(first_batch=2))
    job.run(job.stage(first_batch=2), new_files=1)
    assert job.counts() == every(2)
    shutil.rmtree(job.path("ckpt"))
    job.refused("first_batch=2 says", job.stage(first_batch=2), new_files=1)


def test_a_lost_spark_checkpoint_beside_ours_is_refused(job: Job) -> None:
    """With one batch so far, the new rows looked like the committed batch again, and were dropped."""
    query = job.run(new_files=1)
    shutil.rmtree(job.path("spark"))
    job.refused(f"holds the state of the streaming query {query.id}.*continues='{query.id}'", new_files=1)
    assert job.counts() == every(1)


def test_a_batch_that_comes_again_with_other_rows_is_refused(job: Job) -> None:
    """Spark's checkpoint is of a backup from before batch 1, which it plans anew: with the files that have come since."""
    job.run(new_files=1)
    shutil.copytree(job.path("spark"), job.path("backup"))
    job.run(new_files=1)
    shutil.rmtree(job.path("spark"))
    shutil.move(job.path("backup"), job.path("spark"))
    write_file(job.path("in"), 2, rows_of(2))
    with pytest.raises(Exception, match=r"delivers batch 1 again with 80 rows, but 40 were committed"):
        run_query(job.spark, job.path("in"), SCHEMA, job.stage(), job.path("spark"), files=9)
    assert job.counts() == every(2)


def test_a_query_goes_on_from_anothers_state_once_if_that_is_said(job: Job) -> None:
    query = job.run(new_files=2)
    shutil.rmtree(job.path("in"))  # it reads its source from a start of its own
    job.run(job.stage(continues=str(query.id)), new_files=2, checkpoint="other")
    assert job.counts() == every(4)
    job.run(job.stage(continues=str(query.id)), new_files=1, checkpoint="other")
    assert job.counts() == every(5)
    job.refused(
        "holds the state of the streaming query", job.stage(continues=str(query.id)), checkpoint="third"
    )


def test_a_stage_of_a_query_is_not_called_by_hand(job: Job) -> None:
    job.run(new_files=1)
    with pytest.raises(errors.CheckpointMismatch, match="no streaming query"):
        job.stage()(job.spark.createDataFrame([(1, 1)], SCHEMA), 1)


def test_the_output_of_a_deleted_checkpoint_is_not_mixed_with_the_new_one(job: Job) -> None:
    job.run(new_files=1)
    for name in ("ckpt", "spark"):
        shutil.rmtree(job.path(name))
    job.refused("out holds the output of another stage.*folder of its own, or remove", new_files=1)
    shutil.rmtree(job.path("out"))
    job.run()
    assert job.counts() == every(2)


def test_two_stages_on_one_folder_are_refused(job: Job, tmp_path: Path) -> None:
    job.run(new_files=1)
    other = job.stage(checkpoint=str(tmp_path / "second"))
    job.refused("out holds the output of another stage", other, checkpoint="spark2")
    aside = job.stage(aside=hg.sinks.Parquet(str(tmp_path / "out")))
    job.refused("out holds the output of this stage, and cannot hold its rows aside too", aside, new_files=1)
    job.run()
    assert job.counts() == every(2)


def test_an_output_folder_that_lacks_batches_or_has_later_ones_is_refused(job: Job) -> None:
    job.run(new_files=2)
    for name in ("ckpt", "spark", "out"):
        shutil.copytree(job.path(name), job.path(f"old-{name}"))
    job.run(new_files=2)
    new = hg.sinks.Parquet(str(job.path("new")))
    job.refused(r"new has no batch, though .* up to batch 3.*first_batch=4", job.stage(sink=new), new_files=1)
    shutil.move(job.path("out"), job.path("kept"))
    shutil.copytree(job.path("old-out"), job.path("out"))
    job.refused("out has only batches up to 1, though this stage has committed up to batch 3")
    shutil.rmtree(job.path("out"))
    shutil.move(job.path("kept"), job.path("out"))
    job.run(job.stage(sink=hg.sinks.Parquet(str(job.path("new")), first_batch=4)))
    assert hg.sinks.Parquet(str(job.path("new"))).batches() == [4]
    for name in ("ckpt", "spark"):
        shutil.rmtree(job.path(name))
        shutil.move(job.path(f"old-{name}"), job.path(name))
    job.refused("out holds the batches 2 to 3, which this stage has not committed")
    for number in (2, 3):
        shutil.rmtree(job.path("out") / f"batch={number}")
        (job.path("out") / "_batches" / f"{number:012d}.json").unlink()
    job.run()
    assert job.counts() == every(5)


def test_batches_of_nobody_known_are_refused(job: Job) -> None:
    job.path("out").joinpath("batch=0").mkdir(parents=True)
    job.refused("holds batches, and nothing says whose they are", new_files=1)


def test_a_lost_checkpoint_of_one_stage_of_a_pipeline_is_refused(job: Job) -> None:
    def pipeline() -> hg.Pipeline:
        first = job.stage(operator=hg.HistoryWindow(2, "mean", of="v"), sink=None)
        second = job.stage(operator=hg.Aggregate(n=agg.count()), checkpoint=str(job.path("second")))
        return hg.Pipeline(first, second)

    job.run(pipeline(), new_files=2)
    for lost in ("second", "ckpt"):
        shutil.move(job.path(lost), job.path("backup"))
        job.refused(r"nothing is committed in .*Stage\(first_batch=\d\)", pipeline(), new_files=1)
        shutil.rmtree(job.path(lost), ignore_errors=True)
        shutil.move(job.path("backup"), job.path(lost))
        job.run(pipeline())
    assert job.counts() == every(4)


@pytest.fixture
def slow(job: Job) -> Callable[..., Any]:
    """A stage that stops at a step of a batch and lets something else happen before it goes on."""

    def make(step: str, batch: int, meanwhile: Callable[[], None], **options: Any) -> Any:
        stage = job.stage(**options)

        def reached(name: str) -> None:
            if name == step and stage.opened.checkpoint.last and stage.opened.checkpoint.last.batch == batch:
                stage.on_step = lambda name: None
                meanwhile()

        stage.on_step = reached
        return stage

    return make


@pytest.mark.parametrize(
    "step",
    [
        "compute",
        pytest.param("decide", marks=pytest.mark.full),
        "commit",
        pytest.param("retire", marks=pytest.mark.full),
    ],
)
def test_a_driver_that_slept_changes_nothing_and_says_who_has_the_query(
    job: Job, slow: Any, step: str, tmp_path: Path
) -> None:
    """While it sleeps in batch 1, another driver takes the query over and commits many batches."""
    frames = [job.spark.createDataFrame([(k, b) for k in range(40)], SCHEMA) for b in range(8)]
    after = step in ("commit", "retire")

    def successor() -> None:
        other = job.stage()
        for batch in range(1, 7):
            other(frames[batch], batch)

    sleeper = slow(step, 1 if after else 0, successor)
    sleeper(frames[0], 0)
    if after:
        sleeper(frames[1], 1)  # it was committed before the other began: this much is right
    else:
        with pytest.raises(
            errors.Superseded, match=r"another driver has taken over .*process \d+ on .*, since"
        ):
            sleeper(frames[1], 1)
    state = set((tmp_path / "ckpt/state").iterdir())
    restarted = job.stage()
    with pytest.raises(errors.BatchOrder):
        restarted(frames[1], 1)
    restarted(frames[7], 7)
    assert job.counts() == every(8)
    assert state & set((tmp_path / "ckpt/state").iterdir())


def test_of_two_drivers_at_once_the_loser_says_who_has_the_query(job: Job) -> None:
    frames = [job.spark.createDataFrame([(k, b) for k in range(40)], SCHEMA) for b in range(6)]
    first = job.stage()
    first(frames[0], 0)
    second = job.stage()
    second(frames[1], 1)
    with pytest.raises(errors.Superseded, match=r"stop the other one before you start this one again"):
        first(frames[1], 1)
    for batch in range(2, 5):
        second(frames[batch], batch)
    first(frames[5], 5)  # started again, it has the query
    with pytest.raises(errors.Superseded):
        second(frames[5], 5)
    assert job.counts() == every(6)
