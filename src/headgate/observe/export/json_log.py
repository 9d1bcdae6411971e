"""Log records as lines of JSON, each with its query and batch."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import IO, Any

from headgate.observe.events import QueryEvent


class JsonLines(logging.Formatter):
    """A record as one line of JSON: time, level, logger, message, query, stage, batch; of a batch, what it did."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in ("query", "stage", "batch"):
            if getattr(record, name, None) not in (None, ""):
                line[name] = getattr(record, name)
        happened = getattr(record, "happened", None)
        if isinstance(happened, QueryEvent):
            line["happened"] = happened.to_json()
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def json_logs(stream: IO[str] | None = None, level: int = logging.INFO) -> logging.Handler:
    """Write the records of headgate to a stream (by default stderr) as lines of JSON; returns the handler, to
    take it off again with `logging.getLogger("headgate").removeHandler(...)`.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    ours = logging.getLogger("headgate")
    ours.addHandler(handler)
    if ours.level == logging.NOTSET or ours.level > level:
        ours.setLevel(level)
    return handler
