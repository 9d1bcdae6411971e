"""`examine`: from a log to a diagnosis of each streaming query in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from headgate.doctor import event_log
from headgate.doctor.application import Application, Query
from headgate.doctor.costs import Costs
from headgate.doctor.events import read_events
from headgate.doctor.findings import Findings, find
from headgate.doctor.keys import Sample, read_sample, read_state
from headgate.doctor.porting import porting_steps
from headgate.doctor.predict import Prediction, predict
from headgate.errors import ConfigError


@dataclass(frozen=True)
class Diagnosis:
    """What was found about one query, what Headgate would do with it, and how to port it."""

    query: str
    name: str
    source: str
    operators: tuple[str, ...]
    findings: Findings
    prediction: Prediction
    steps: tuple[str, ...]
    sample: Sample | None = None

    def as_json(self) -> dict[str, Any]:
        """Plain data; the loads of all batches are left out."""
        data = asdict(self)
        for stage in data["findings"]["stages"]:
            stage.pop("loads")
        if self.sample is not None:
            data["sample"].pop("counts")
        return data


@dataclass(frozen=True)
class Examined:
    """An application, its queries, and what should be known about the log itself."""

    application: Application
    diagnoses: tuple[Diagnosis, ...]
    costs: Costs
    warnings: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        app = self.application
        return {
            "application": {"id": app.id, "name": app.name, "spark": app.spark, "cores": app.cores},
            "ended": app.ended,
            "warnings": list(self.warnings),
            "costs": {"machine": self.costs.machine, "measured_here": self.costs.here},
            "queries": [diagnosis.as_json() for diagnosis in self.diagnoses],
        }


def read_application(path: str, application: str = "") -> Application:
    """Read the log of one application."""
    files = event_log.log_files(path, application)

    def lines() -> Iterator[bytes]:
        for file in files:
            yield from event_log.lines_of(file)

    return read_events(lines(), path)


def examine(
    application: Application,
    where: str,
    costs: Costs,
    *,
    query: str = "",
    sample: str = "",
    state: str = "",
    key: Sequence[str] = (),
    cores: int | None = None,
) -> Examined:
    """Diagnose the streaming queries of an application, or the one whose id or name is given.

    Keys come from a `sample` of the input, or from the `state` in the job's checkpoint.
    """
    chosen = _chosen(application, where, query)
    cores = cores or max(1, application.cores)
    diagnoses = tuple(_diagnosed(each, costs, cores, Keys(sample, state, tuple(key))) for each in chosen)
    return Examined(application, diagnoses, costs, tuple(_warnings(application, chosen)))


def _chosen(application: Application, where: str, query: str) -> list[Query]:
    if not application.queries:
        if application.batch_jobs:
            raise ConfigError(
                f"{where} has {application.batch_jobs} jobs and no batch of a streaming query: it is the log of a "
                "batch job. Give the log of a Structured Streaming job"
            )
        still = "" if application.ended else "; its application has not ended: try again after a batch"
        raise ConfigError(
            f"{where} has no streaming query with rows in it{still}. If the job streams, run it until some "
            "batches have ended"
        )
    chosen = [each for each in application.queries if query in (each.id, each.name) or not query]
    if not chosen:
        known = ", ".join(each.name or each.id for each in application.queries)
        raise ConfigError(f"{where} has no query {query!r}; it has {known}")
    return chosen


def _warnings(application: Application, queries: Sequence[Query]) -> Iterator[str]:
    if not application.ended:
        yield "the log stops before its application does: what is said holds for the batches so far"
    if application.damaged:
        yield f"{application.damaged} lines could not be read: of a log that is still written, or of another Spark"
    few = [query.name or query.id for query in queries if len(query.batches) < FEW]
    if few:
        yield (
            f"{', '.join(few)}: fewer than {FEW} batches with rows; Spark compiles its code during the first "
            "ones, so that later ones take less time"
        )


FEW = 6


@dataclass(frozen=True)
class Keys:
    """Where the keys are to be found."""

    sample: str = ""
    state: str = ""
    columns: tuple[str, ...] = ()

    def of(self, found: Findings) -> Sample | None:
        """The keys for the first stateful stage."""
        stage = found.stages[0] if found.stages else None
        partitions = stage.partitions if stage else 0
        if self.sample:
            return read_sample(self.sample, self.columns or (stage.key if stage else ()), partitions)
        return read_state(self.state, partitions) if self.state else None


def _diagnosed(query: Query, costs: Costs, cores: int, where: Keys) -> Diagnosis:
    found = find(query)
    last = query.batches[-1]
    operators = tuple(each.name for each in last.operators)
    keys = where.of(found)
    source = last.sources[0][0] if last.sources else ""
    return Diagnosis(
        query=query.id,
        name=query.name,
        source=source,
        operators=operators,
        findings=found,
        prediction=predict(found, costs, cores, keys.counts if keys and keys.weighs else None, operators),
        steps=tuple(porting_steps(found, operators, source)),
        sample=keys,
    )
