"""The query service: tenants register small standing queries in SQL over HTTP; one Spark application answers all of them.

Words: a **query** is what a tenant registered. Equal queries share one **computation**: a **template** (the query without
its constants), its **sources** and its constants. A **server** hosts computations; in a batch it is one task.

Three rooms. The core (the modules here) knows neither Spark nor HTTP. `batch/` runs batches and is the only room that
imports pyspark. `http/` has the routes, the page and the client. `batch/` and `http/` import the core, the core
imports neither, and they do not import each other. `process` puts the three together, and `config` is what it can be told.

**In: from a request to a placed query.**

1. `http/server` accepts the connection, and `http/edge` refuses strangers and bounds bodies (`edge_limits`).
   `http/routes_queries` takes the request; `http/dependencies` finds its tenant (`tenants`); `http/errors` answers errors.
   Bodies that list many things are read by `http/bulk`.
2. `service.Service.register` has `headgate.sql.prepare` read the text into a template and constants, or refuse it with
   line and column; `preparing` has a lock of its own for that. It knows the sources that the tenant may read (`grants`).
3. Then it takes the lock (`lock`) and calls `queries.Queries.register`.
4. `computations.Computations` finds an equal computation or has `headgate.hosting` place a new one, many at a time
   (`collecting`). The constants of what a server hosts are in `hosted_constants`.
5. `registry` makes all of it durable in one transaction. Only then is the request answered.

**Batch: from rows to committed results.**

1. Pushed events are files before they are acknowledged (`sources`, `push_log`). `batch/streams` makes them and the
   configured Spark streams one stream of rows, and `batch/runner` runs one streaming query over it. Kafka streams
   (`kafka_config`, `batch/kafka_stream`) have a loop of the service's own (`batch/loop`), whose offsets are in the commit.
2. `batch/processor` gets the batch. `Service.begin_batch` gives it a `snapshot` of what is hosted where; it writes the
   constants that changed to files (`table_file`).
3. `batch/job` sends each row once to every server that wants its source, and runs `batch/task` for each server: all
   computations of a template are one step of `headgate.sql.shared`, within bounds of time and memory (`batch/bounds`).
   Servers may share a task (`batch/units`).
   What fails is found and left out (`headgate.sql.blame`). The task writes state and results to files and answers with a
   `batch/report`.
4. `batch/processor` turns the reports into a `manifest`, and `batch_log` commits it in one atomic create. Then
   `Service.batch_committed` stops the queries that failed and records what was measured.

**Out: from committed results to a reader.**

1. `http/routes_queries` takes a cursor and calls `Service.read`; streams learn of a new batch from `http/tails`.
2. `results` decides which rows of the computation the query may see, and reads them from the files that the manifests
   name (`table_file`). The answer carries the next cursor.

`weather` feeds a demonstration source; `http/metrics` is for Prometheus; `http/background` serves HTTP from a thread;
`http/description` writes `/docs`; `overview` is the service at a glance; `private` closes the folder to others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.service.http.client import Client

__all__ = ["Client"]


def __getattr__(name: str) -> Any:
    if name != "Client":
        raise AttributeError(f"module 'headgate.service' has no attribute {name!r}; it has Client")
    try:
        from headgate.service.http.client import Client
    except ModuleNotFoundError as error:
        from headgate.errors import not_installed

        missing = not_installed(error, "headgate.service.Client")
        if missing is None:
            raise
        raise ImportError(str(missing)) from error
    return Client
