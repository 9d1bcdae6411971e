"""The query service: tenants register small standing queries in SQL over HTTP; one Spark application answers all of them.

Words: a **query** is what a tenant registered. Equal queries share one **computation**: a **template** (the query without
its constants), its **sources** and its constants. A **server** hosts computations; in a batch it is one task.

Four rooms. The core (the modules here) knows neither Spark nor HTTP. `batch/` runs batches and is the only room that
imports pyspark. `http/` has the routes, the page and the client. `delivery/` carries results to other places. `batch/`,
`http/` and `delivery/` import the core; `batch/` and `http/` import `delivery/`, and nothing else of each other. `process`
puts them together, and `config` is what it can be told.

**In: from a request to a placed query.**

1. `http/server` accepts the connection (`http/tls`, if `access` says so), and `http/edge` refuses strangers and bounds
   bodies (`edge_limits`). `http/identity` finds the tenant (`tenants`) by its token (`tokens`, `http/oidc`), checks its
   role and how often it asks (`rates`), and records what it changes (`audit`). `http/routes_queries` takes the request
   (`http/numbers` reads its path); `http/dependencies` gives it what it asks for; `http/errors` answers errors.
   Bodies that list many things are read by `http/bulk`.
2. `service.Service.register` has `headgate.sql.prepare` read the text into a template and constants, or refuse it with
   line and column; `preparing` has a lock of its own for that. It knows the sources that the tenant may read (`grants`).
3. Then it takes the lock (`lock`) and calls `queries.Queries.register`.
4. `computations.Computations` finds an equal computation or has `headgate.hosting` place a new one, many at a time
   (`collecting`). The constants of what a server hosts are in `hosted_constants`.
5. `registry` makes all of it durable in one transaction. Only then is the request answered.

**Batch: from rows to committed results.**

1. Pushed events are files before they are acknowledged: a log (`push_log`) of numbered files (`push_lanes`) that knows
   what waits (`backlog`); the first time after an earlier version, with what that has left (`push_upgrade`,
   `stream_upgrade`). `batch/runner` runs the loop (`batch/loop`), which plans ranges of the log (`push_source`,
   `batch/push_stream`), with a share for each tenant (`fair`), and of the streams of the configuration
   (`stream_config`, `batch/connector_stream`). Tasks read them (`batch/ranges`) as rows in slots (`sources`,
   `batch/streams`). `flow` bounds what a batch takes and what may wait, and `lag` says how far batches are behind.
2. `batch/processor` gets the batch. `Service.begin_batch` gives it a `snapshot` of what is hosted where; it writes the
   constants that changed to files (`table_file`).
3. `batch/job` sends each row once to every server that wants its source (`batch/sending`), and runs `batch/task` for each
   server: all computations of a template are one step of `headgate.sql.shared` (`batch/server_work`), within bounds of time and
   memory (`batch/attempt`, `batch/bounds`). `batch/turns` decides in which order, and what has to wait
   (`headgate.sql.deferral`). What fails is found and left out (`headgate.sql.blame`); if a worker died, with each
   attempt in its own process (`batch/careful`). The task reads its tables from files (`batch/task_tables`,
   `batch/waiting`), with the rows that joins keep (`batch/join_rows`), writes state and results (`batch/task_output`),
   and answers with a `batch/report`. What waits when no rows come is computed by `batch/catch_up`. Servers may share a
   task (`batch/units`).
4. `batch/processor` turns the reports into a `manifest`, and `batch_log` commits it in one atomic create. Then
   `Service.batch_committed` stops the queries that failed and records what was measured: for each tenant
   (`tenant_use`) in `usage`, which `usage_view` compares with `tenant_limits` and `http/routes_usage` shows.

**Out: from committed results to a reader.**

1. `http/routes_queries` takes a cursor and calls `Service.read`; streams learn of a new batch from `http/tails`.
2. `results` decides which rows of the computation the query may see, and reads them from the files that the manifests
   name (`table_file`). The answer carries the next cursor.

**Out: from committed results to other places.**

1. `http/routes_deliveries` takes an order for `delivery/desk`; `targets_config` says which places the operator allows.
   `delivery/orders` keeps it in the registry with the cursor up to which results were sent.
2. `delivery/dispatch` gives a thread to each delivery that has something to send: a `delivery/parcel`, which is pending in
   the registry before it is sent.
3. `delivery/senders` carry it: to the sinks of `headgate.stage`, exactly once, or with `delivery/webhook` to a URL whose
   address `delivery/addresses` has checked, at least once.
4. A query over another's results reads a published source (`delivery/publications`): `delivery/published` plans the rows
   of committed batches as a stream of the loop (`batch/published_stream`).

**Processes: one leads, others stand by.**

1. `process` answers HTTP from its start (`http/front`), and has its engine warm up: `batch/engine` starts Spark, and
   `rehearsal` runs a batch of a small service. Then it waits until it leads (`leadership`): a lock on the folder, or a lease
   in the registry if the folder is not shared (`places`).
2. It opens the `Service`, whose claim fences the leader before it, and upgrades a registry of an older version (`upgrade`).
3. On SIGTERM it drains: nothing more is taken, the batch under way is committed, streams of results end.

`backup` copies a running service and makes a service of a copy (`registry_copy` for its database).

`http/routes_tenants` and `accounts` are what admins and tenants do with tenants and tokens; `http/client_tenants` is
that part of the client. `migrations` bring registries of earlier formats to the present one. `weather` feeds a
demonstration source; `http/metrics` is for Prometheus; `http/background` serves HTTP from a thread;
`http/delivery_calls` is a part of the client; `http/description` writes `/docs`; `settings` are what a service is
told; `explaining` says what a text became; `overview` is the service at a glance; `private` closes the folder to
others.
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
