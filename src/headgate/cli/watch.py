"""`headgate watch`: the live page of a query, from its checkpoint. Needs no Spark."""

from __future__ import annotations

from headgate.cli.console import Output
from headgate.watch.reader import CheckpointReader
from headgate.watch.server import LiveView, Page


def watch(checkpoint: str, host: str, port: int, output: Output) -> None:
    """Serve the page until Ctrl-C."""
    view = LiveView(CheckpointReader(checkpoint))
    with Page(view, host=host, port=port) as page:
        output.result(f"{checkpoint} is shown on {page.url} (Ctrl-C ends)", {"url": page.url})
        page.wait()
