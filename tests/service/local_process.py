"""A service process without Spark, with the options of `headgate serve` that a test needs.

All but the engine is that of `headgate serve`. Pushed files are read by a thread here, and their names are offsets in the
commit. `HEADGATE_SLOW_S` makes each batch that much longer, so that a test can meet one under way.
"""

import argparse
import io
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tests.service.local import local_job

from headgate import errors
from headgate.service.batch.processor import BatchProcessor
from headgate.service.config import ServiceConfig
from headgate.service.process import ServiceProcess
from headgate.service.rehearsal import rehearse

STREAM = "pushed"


class LocalEngine:
    """Batches in a thread of this process."""

    def warm(self, stack):
        if "HEADGATE_REHEARSE" in os.environ:
            rehearse(self.start)

    def start(self, service, stack):
        self.service, self.stopping = service, threading.Event()
        self.processor = BatchProcessor(service, self.job)
        self.thread = threading.Thread(target=self.run, daemon=True)
        stack.callback(self.stop)
        service.running = True
        self.thread.start()

    def job(self, *arguments):
        time.sleep(float(os.environ.get("HEADGATE_SLOW_S", "0")))
        return local_job(*arguments)

    def run(self):
        while not self.stopping.wait(0.02):
            try:
                self.step()
            except errors.Superseded as error:
                self.service.failures[""] = str(error)
                return

    def step(self):
        store, done = self.service.push_log.store, self.processor.offsets().get(STREAM, "")
        waiting = [name for name in store.names("") if name.endswith(".parquet") and name > done][:20]
        if waiting:
            rows = pa.concat_tables(
                [pq.read_table(io.BytesIO(store.read(name))) for name in waiting], promote_options="default"
            )
            self.processor.process_ranges(rows, {STREAM: waiting[-1]})

    def stop(self):
        self.stopping.set()
        self.thread.join()


def run(arguments, environment, log) -> None:
    """Be a service process; this does not return."""
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.environ.update(environment)
    try:
        os._exit(_serve(arguments))
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def _serve(arguments) -> int:
    parser = argparse.ArgumentParser()
    for name in ("folder", "registry", "state", "push"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--standby", action="store_true")
    parser.add_argument("--lease-s", type=float, default=1.0)
    parser.add_argument("--drain-s", type=float, default=60.0)
    given = parser.parse_args(arguments)
    config = ServiceConfig(
        Path(given.folder), "127.0.0.1", given.port, 3, "", given.registry, False, given.state, given.push,
        standby=given.standby, lease_s=given.lease_s, drain_s=given.drain_s,
    )  # fmt: skip
    process = ServiceProcess(config, LocalEngine())
    code = 0
    try:
        with process:
            process.lead()
            process.wait()
    except KeyboardInterrupt:
        pass
    except errors.Superseded as error:
        print(error, file=sys.stderr)
        code = 75
    return code if process.signal in (None, signal.SIGTERM) else 130
