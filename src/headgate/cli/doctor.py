"""`headgate doctor`: what holds a native stream back, what Headgate would do with it, and how to port it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.console import Output
from headgate.cli.group import AsJson
from headgate.errors import ConfigError

if TYPE_CHECKING:
    from headgate.doctor.costs import Costs


def doctor(
    log: Annotated[
        str | None,
        typer.Argument(help="An event log, the folder of spark.eventLog.dir, or of hg.doctor.record."),
    ] = None,
    application: Annotated[str, typer.Option(help="Which application, if the folder has several.")] = "",
    query: Annotated[str, typer.Option(help="Which streaming query, by name or id; by default, all.")] = "",
    sample: Annotated[
        str, typer.Option(help="Rows of the input (.parquet, .json, .csv): which keys are hot.")
    ] = "",
    state: Annotated[
        str, typer.Option(help="The job's checkpoint: its keys, by Spark's state data source.")
    ] = "",
    key: Annotated[
        str, typer.Option(help="Key columns of the sample, with commas; by default, as in the plan.")
    ] = "",
    cores: Annotated[
        int | None, typer.Option(help="Cores that headgate would get; by default, as the job had.")
    ] = None,
    costs: Annotated[Path | None, typer.Option(help="A file of constants that --calibrate wrote.")] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure the constants here first: a minute or two.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say what holds a native Spark stream back, and what headgate would do with it."""
    from headgate.cli.doctor_text import as_text
    from headgate.doctor import costs as constants
    from headgate.doctor.diagnosis import examine, read_application

    output = Output(as_json=as_json)
    if log is None and not calibrate:
        raise ConfigError(
            "name an event log, or a folder of them: headgate doctor LOG; or measure the constants of this "
            "machine: headgate doctor --calibrate"
        )
    if sample and state:
        raise ConfigError("give --sample or --state, not both: each tells the keys")
    if calibrate:
        measured = _measured(cores or 2, output)
        output.say(f"the constants of this machine are in {constants.save(measured, costs)}")
        if log is None:
            output.result("", measured.to_json())
            return
    assert log is not None
    columns = tuple(name.strip() for name in key.split(",") if name.strip())
    found = examine(
        read_application(log, application),
        log,
        constants.load(costs),
        query=query,
        sample=sample,
        state=state,
        key=columns,
        cores=cores,
    )
    output.result(as_text(found), found.as_json())


def _measured(cores: int, output: Output) -> Costs:
    from headgate.doctor.calibrate import calibrate

    with output.progress("doctor --calibrate") as tick:
        return calibrate(cores, tick)
