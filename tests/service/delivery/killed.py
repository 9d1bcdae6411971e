"""A process that delivers to a Parquet folder, and is killed between the write and the cursor: `killed.py FOLDER`."""

import os
import signal
import sys
from pathlib import Path

from tests.service.delivery.receiver import allowing, desk_of, rows
from tests.service.local import Local

from headgate.service.delivery.dispatch import Dispatcher
from headgate.service.delivery.senders import SinkSender
from headgate.service.targets_config import Target


def opened(folder):
    target = Target("lake", "parquet", {"path": str(folder / "lake")}, frozenset({"ann"}))
    return Local(folder / "service", servers=1, allowed=allowing(lake=target))


if __name__ == "__main__":
    local = opened(Path(sys.argv[1]))
    (number,) = local.add("SELECT n FROM alpha")
    ((one,), _) = desk_of(local).add(local.ann, [number], "lake", {"table": "out"})
    real = SinkSender.send

    def send(self, parcel) -> None:
        real(self, parcel)
        if parcel.number == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    SinkSender.send = send  # type: ignore[method-assign]
    dispatcher = Dispatcher(local.service)
    for batch in range(3):
        local.feed(rows(batch))
        dispatcher.step(one.id)
