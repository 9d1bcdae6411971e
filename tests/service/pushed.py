"""The pushed events as a stream of the loop, without Spark."""

import pyarrow as pa

from headgate.service.push_source import PUSHED, PushSource


class Pushed:
    """What was pushed to all sources, as tables."""

    name, max_rows = PUSHED, 1_000_000

    def __init__(self, service) -> None:
        self.source = PushSource(service.push_log)

    def rows(self, ranges):
        return pa.Table.from_batches([batch for part in ranges for batch in self.source.read(part.what)])
