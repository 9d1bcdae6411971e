"""A service process without Spark, with the options of `headgate serve` that a test needs.

All but the engine is that of `headgate serve`, and its loop runs here without Spark. `HEADGATE_SLOW_S` makes each batch
that much longer, so that a test can meet one under way.
"""

import argparse
import os
import signal
import sys
import time
import traceback
from pathlib import Path

import pyarrow as pa
from tests.service.local import local_job
from tests.service.pushed import Pushed

from headgate import errors
from headgate.service.batch.loop import Loop
from headgate.service.batch.processor import BatchProcessor
from headgate.service.config import ServiceConfig
from headgate.service.process import ServiceProcess
from headgate.service.rehearsal import rehearse


class LocalEngine:
    """Batches of pushed events in a thread of this process."""

    def warm(self, stack):
        if "HEADGATE_REHEARSE" in os.environ:
            rehearse(self.start)

    def start(self, service, stack):
        processor = BatchProcessor(service, self.job)
        loop = Loop(service, processor, [Pushed(service)], pa.concat_tables)
        stack.callback(loop.stop)
        service.running = True
        loop.start()

    def alive(self):
        return not os.path.exists(os.environ.get("HEADGATE_DEAD", ""))

    def job(self, *arguments):
        time.sleep(float(os.environ.get("HEADGATE_SLOW_S", "0")))
        return local_job(*arguments)


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
    except errors.TaskFailed as error:
        print(error, file=sys.stderr)
        code = 70
    return code if process.signal in (None, signal.SIGTERM) else 130
