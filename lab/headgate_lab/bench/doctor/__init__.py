"""`headgate bench doctor`: what the doctor predicts for ten native jobs, beside their ports as measured.

The native jobs run first, with an event log, which is all that the doctor sees. Then, in a session of
headgate's, the constants of the cost model are measured as `headgate doctor --calibrate` does, on other
rows and sizes, and the ten ports run. The later half of the batches of each counts.

Without `quick`, the results are written to `benchmarks/results/doctor.json` if there is a folder
`benchmarks`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table as Grid

from headgate.cli.console import Tick, numbers_grid
from headgate.doctor.calibrate import machine_name
from headgate.doctor.costs import Costs, Sample, fitted
from headgate.doctor.diagnosis import Diagnosis, examine, read_application
from headgate.doctor.predict import WORTH
from headgate_lab.bench.doctor.child import SAMPLES
from headgate_lab.bench.doctor.jobs import WORKS, DoctorTask, Work, seed_of, small, write
from headgate_lab.bench.job import CORES, run_jobs, workspace
from headgate_lab.bench.result import Goal, Report, Result, machine
from headgate_lab.bench.rounds import Times, median

RESULTS = Path("benchmarks/results/doctor.json")
TOLERANCE = 0.2
CALIBRATE = "calibrate"


@dataclass(frozen=True)
class Compared:
    """A job: what was predicted for it, and what was measured, in ms a batch."""

    work: Work
    diagnosis: Diagnosis
    native: tuple[float, ...]
    ported: tuple[float, ...]

    @property
    def predicted(self) -> float:
        """Under the default policy."""
        made = self.diagnosis.prediction.default
        return made.batch_ms if made else 0.0

    @property
    def measured(self) -> float:
        """The median of the port's batches."""
        return median(self.ported)

    @property
    def within(self) -> bool:
        """Whether the prediction is within the tolerance."""
        return abs(self.predicted / self.measured - 1) <= TOLERANCE

    @property
    def speedup(self) -> float:
        """How many times as fast as native the port is."""
        return median(self.native) / self.measured

    @property
    def right(self) -> bool:
        """Whether the verdict is true."""
        return self.diagnosis.prediction.verdict.helps == (self.speedup >= WORTH)


def run(*, quick: bool, repeat: int, progress: Tick) -> Report:
    """Run all jobs, and compare; `repeat` runs the ports several times."""
    where = machine()
    with workspace() as work:
        compared = measure([small(w) for w in WORKS] if quick else list(WORKS), work, quick, repeat, progress)
    report = reported(compared, where, quick=quick)
    if not quick and RESULTS.parent.parent.is_dir():
        RESULTS.parent.mkdir(exist_ok=True)
        text = json.dumps(report.as_json(), indent=1, allow_nan=False)
        RESULTS.write_text(text + "\n", encoding="utf-8")
    return report


def measure(
    works: list[Work], work: Path, quick: bool, repeat: int, progress: Tick, *, shift: int = 0
) -> list[Compared]:
    """Run the jobs natively, measure constants, run the ports. `shift` gives other rows."""
    progress("writing the input", 0.0)
    for one in works:
        write(one, work / "in" / one.folder, seed=seed_of(one) + shift)
    log = work / "log"
    tasks = [_task(one, "native", work, other=str(log)) for one in works]
    native = _run(tasks, progress, 0.05, 0.6)
    ported: Times = {one.name: [] for one in works}
    costs = None
    for number in range(repeat):
        calibrate = DoctorTask(
            CALIBRATE, CALIBRATE, "", "", 1, str(work / f"calibrate-{number}"), quick=quick
        )
        ports = [_task(one, "ported", work, f"-{number}") for one in works]
        share = 0.4 / repeat
        times = _run([calibrate, *ports], progress, 0.6 + share * number, 0.6 + share * (number + 1))
        for one in works:
            ported[one.name] += _later(times[one.name])
        if costs is None:
            costs = costs_of(work / "calibrate-0" / SAMPLES)
    assert costs is not None
    application = read_application(str(log))
    found = {each.name: each for each in examine(application, str(log), costs, cores=CORES).diagnoses}
    return [
        Compared(one, found[one.name], tuple(_later(native[one.name])), tuple(ported[one.name]))
        for one in works
    ]


def costs_of(samples: Path) -> Costs:
    """The constants that fit the samples in a file."""
    found = json.loads(samples.read_text(encoding="utf-8"))
    kinds = {kind: fitted([Sample(**each) for each in mine], CORES) for kind, mine in found.items()}
    return Costs(kinds, machine_name(CORES), here=True)


def _later(times: list[float]) -> list[float]:
    return times[len(times) // 2 :]


def _task(one: Work, system: str, work: Path, number: str = "", *, other: str = "") -> DoctorTask:
    folder = work / f"{system}{number}" / one.folder
    store = "rocksdb" if one.operator == "zscore" else "hdfs"
    return DoctorTask(
        one.name, system, one.operator, str(work / "in" / one.folder), one.batches, str(folder),
        store=store, other=other, rows=one.rows,
    )  # fmt: skip


def _run(tasks: list[DoctorTask], progress: Tick, begin: float, end: float) -> Times:
    Path(tasks[0].work).parent.mkdir(parents=True, exist_ok=True)
    names = [task.name for task in tasks]

    def tick(task: DoctorTask, _: int) -> None:
        done = names.index(task.name) / len(names)
        progress(f"{task.system}: {task.name}", begin + (end - begin) * done)

    return run_jobs(tasks, tick, module="headgate_lab.bench.doctor.child")


def reported(compared: list[Compared], where: dict[str, object], *, quick: bool) -> Report:
    """The comparison as a report."""
    results = []
    for each in compared:
        name = each.work.name
        samples = {f"{name}, ported": each.ported, f"{name}, native": each.native}
        results.append(
            Result(f"{name}: predicted batch", "ms", each.predicted, "measured", each.measured, samples)
        )
        verdict = each.diagnosis.prediction.verdict
        results.append(
            Result(
                f"{name}: headgate {'would' if verdict.helps else 'would not'} help, predicted speed-up",
                "x", verdict.speedup or 0.0, "measured", each.speedup, {},
            )
        )  # fmt: skip
    goals = (
        Goal(
            "predictions of batch time within 20%, of ten jobs",
            8,
            sum(each.within for each in compared),
            unit="",
        ),
        Goal(
            "jobs of which it is said wrongly that headgate would not help",
            0,
            sum(not each.right for each in compared if not each.diagnosis.prediction.verdict.helps),
            at_most=True,
            unit="",
        ),
    )
    return Report("doctor", tuple(results), goals, where, quick=quick, shown=_grid(compared))


def _grid(compared: list[Compared]) -> Grid:
    heads = ("job", "native\nms", "predicted\nms", "measured\nms", "off by", "said", "faster")
    grid = numbers_grid("bench doctor: predicted and measured batches", heads)
    grid.columns[0].justify = "left"
    for each in compared:
        helps = each.diagnosis.prediction.verdict.helps
        grid.add_row(
            each.work.name,
            f"{median(each.native):,.0f}",
            f"{each.predicted:,.0f}",
            f"{each.measured:,.0f}",
            f"{each.predicted / each.measured - 1:+.0%}",
            "helps" if helps else "does not",
            f"{each.speedup:.1f}x",
            style=None if each.within and each.right else "red",
        )
    return grid
