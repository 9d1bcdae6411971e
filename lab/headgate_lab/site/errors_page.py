"""The page of errors: every error that Headgate raises, what it means, and what to do."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from headgate import errors

REMEDIES = {
    "ConfigError": "Read the message: it names the value and what is allowed. Nothing has run yet.",
    "MissingColumn": "Name a column that exists, or add it to `schema=`. The message lists the columns there are.",
    "UnsupportedType": "Cast the column in `select`, or leave it out. The message names the column and its type.",
    "KernelRefused": "Change the line that the message names. [What can be compiled](kernels.md#what-can-be-compiled) has the list.",
    "QueryRefused": "Change the SQL at the line and column of the message. [The SQL that is supported](service.md#the-sql-that-is-supported) has the list.",
    "AlreadyExists": "Choose another name. Names of removed tenants and their sources are never given again.",
    "KernelFailed": 'Fix the kernel or the row that the message names, or pass `on_error="skip"` to put such rows aside.',
    "QueryFailed": "Read the reason in `headgate query list` or `GET /queries/N`. Fix the query and register it again.",
    "AccessDenied": "Use a token with a higher role, or ask an admin for a [grant](../operate/service-security.md#who-reads-a-source).",
    "BadToken": "Ask an admin for a new token. The old one is unknown, expired or revoked.",
    "QuotaExceeded": "Remove what you no longer need, or ask an admin for a higher [limit](../operate/service-security.md#resource-groups).",
    "Backlogged": "Wait for `retry_after_s` seconds and push again. `hg.service.Client` does it by itself for a minute.",
    "NotFound": "List what there is (`headgate query list`, `headgate source list`). It may belong to another tenant.",
    "CursorGone": "Read again from the start. Results are kept for 500 batches; read more often, or [deliver](service.md#results-elsewhere) them.",
    "CheckpointMismatch": "The message names both sides. Restore what the checkpoint belongs to, or start a new query in an empty folder. [What belongs together](../understand/promises.md#what-belongs-together) lists every case.",
    "CheckpointError": "Check that driver and tasks can reach the folder and may write to it.",
    "CorruptState": "Restore the file that the message names from a backup, with the whole checkpoint. Nothing was computed from the damaged file.",
    "NewerFormat": "Use the newer version of Headgate that wrote the checkpoint.",
    "OlderFormat": "Finish the run with the version that wrote the checkpoint, then start with an empty folder. [Upgrades](../operate/upgrades.md) has the steps.",
    "Superseded": "Nothing, if you started the query again on purpose: the newer driver has it. Otherwise stop one of the two; the message names host, process and start time of the other.",
    "StorageFull": "Free space and start the query again. It goes on from its last commit.",
    "BatchOrder": "Spark's checkpoint and the stage's do not fit. Restore both from the same backup, or delete both. See [what belongs together](../understand/promises.md#what-belongs-together).",
    "SourceFailed": 'Fix the file, record or connection that the message names, and start again. Nothing of the batch was committed. For Kafka records that do not parse, `bad="folder"` puts them aside.',
    "OffsetsLost": 'Kafka deleted records before they were read. Pass `on_lost="earliest"` to go on with what is left, and keep records longer.',
    "StepFailed": "Fix the function that the message names, and start again. It must return the same columns for every table.",
    "SinkFailed": "Fix what the message names (rights, table, connection) and start again: the batch is committed and will be published.",
    "ArithmeticOverflow": "Cast the column to a wider type, such as `double` or `decimal(38,0)`, before the aggregate.",
    "NoRoom": "Add a server, or raise the capacity of the servers.",
    "TaskFailed": "Read the cause at the end of the message: a task failed in Spark. If a worker ran out of memory, see [sizing](../operate/sizing.md).",
    "WaveFailed": "Read the cause: a step behind a gate failed after all retries. Fix it, or make `batch` smaller.",
    "StaleTable": "Nothing: the plan is made again from the table in force. You see it only if you apply plans yourself.",
}
"""What to do about each error."""
HEAD = """# Errors

Each error says what happened, where, and what to do. This page lists all of them. They are in
`hg.errors`, and all derive from `hg.errors.HeadgateError`, so one `except` catches every error that
Headgate raises on purpose.

| error | what it means | what to do |
|---|---|---|"""


def pages(problems: list[str]) -> dict[str, str]:
    """The page of errors; an error without a remedy is a problem."""
    named = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.HeadgateError) and name != "HeadgateError"
    }
    problems += [f"reference/errors.md: {name} has no remedy" for name in sorted(named - set(REMEDIES))]
    problems += [f"reference/errors.md: there is no error {name}" for name in sorted(set(REMEDIES) - named)]
    return {"reference/errors.md": "\n".join(_page(sorted(named & set(REMEDIES))))}


def _page(names: list[str]) -> Iterator[str]:
    yield HEAD
    for name in names:
        means = " ".join((inspect.getdoc(getattr(errors, name)) or "").split()).replace("``", "`")
        yield f'| <span id="{name.lower()}"></span>`{name}` | {means} | {REMEDIES[name]} |'
    yield ""
