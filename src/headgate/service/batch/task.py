"""What runs in a Python worker for one server of the query service: its templates over its rows of one batch.

Like a channel's task it writes files under names that no other attempt uses, and reports them. Until the driver commits
the report those files are rubbish, so a retried or speculative attempt does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.errors import HeadgateError
from headgate.service.batch.report import failure_json
from headgate.service.batch.server_work import ServerWork
from headgate.service.batch.task_tables import JoinRowFiles, TemplateFiles
from headgate.service.lengthen import Lengthen
from headgate.service.tenant_use import Fairness
from headgate.sql.engine import Function
from headgate.sql.limits import Limits
from headgate.storage.store import Store


@dataclass(frozen=True)
class ServerTask:
    """What every server's task needs to know about a batch. The tasks are one function; each picks its server's part."""

    batch: int
    run: str
    store: Store
    row_schema: pa.Schema
    templates: Mapping[int, Sequence[TemplateFiles]]
    """By server."""
    join_rows: Mapping[int, JoinRowFiles]
    """By server."""
    latest: NDArray[np.int64]
    """By source number: the latest event time before this batch."""
    delay_us: NDArray[np.int64]
    """By source number: how late its rows may arrive."""
    limits: Limits
    functions: Mapping[str, Function]
    memory: str
    budgets: Mapping[int, float] = field(default_factory=dict)
    """By tenant that has one of its own: seconds of a batch."""
    lengthen: Lengthen = field(default_factory=Lengthen)
    """By how much a tenant may lengthen the batch, if others are active."""
    light: frozenset[int] = frozenset()
    """The tenants that are active and need little."""
    fairness: Mapping[int, Fairness] = field(default_factory=dict)
    """By server."""
    careful: bool = False
    """Whether attempts run in processes of their own, because a worker died in this batch (`careful`)."""
    killable: bool = False
    """Whether this process may be killed when an attempt cannot be stopped otherwise."""

    def run_server(self, batches: Iterable[pa.RecordBatch], server: int, attempt: int) -> dict[str, Any]:
        """Process one server's rows; returns the JSON of its report, or of its failure."""
        file_name = f"{self.batch:012d}-{server:05d}-{self.run}-{attempt}"
        working = ServerWork(self, server, file_name)
        try:
            return working.work(batches).to_json()
        except HeadgateError as error:
            return failure_json(error)
        finally:
            working.close()
