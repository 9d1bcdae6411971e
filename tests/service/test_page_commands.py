"""The commands of the pages about the service run against one, without Spark, in the order of each page."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests import shell
from tests.docs import DOCS
from tests.service.delivery.receiver import LOCAL, allowing
from tests.service.local import Local
from tests.service.local_process import LocalEngine
from typer.testing import CliRunner

from headgate.cli import app
from headgate.service.http.background import listening
from headgate.service.targets_config import Target

PLACES = {"/srv/headgate": "service", "/srv/restored": "restored", "/backup/monday": "monday"}


class Shop(Local):
    """A service behind a port with an admin and two sources, whose batches run as rows come."""

    def __init__(self, folder: Path) -> None:
        lake = Target("lake", "parquet", {"path": str(folder / "lake")}, frozenset({"root"}))
        bus = Target("bus", "kafka", {"servers": "127.0.0.1:9", "topic": "results"}, frozenset({"root"}))
        super().__init__(folder / "service", servers=1, allowed=allowing(LOCAL, lake=lake, bus=bus))
        self.admin_token = self.service.add_tenant("root", admin=True)
        self.root = self.service.authenticate(self.admin_token)
        columns = {"weather": {"city": "varchar", "temp": "double"}, "road": {"speed": "double"}}
        declared = [{"name": name, "columns": of, "delay_s": 2} for name, of in columns.items()]
        self.service.add_sources(self.root, declared)

    def rain(self) -> None:
        """Push a minute of weather, so that windows close."""
        events = [{"time": 1_000_000 * at, "city": "Rome", "temp": 20.0} for at in range(60)]
        self.service.push_events(self.root, "weather", events)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A service in this folder, and its admin's token in the environment."""
    made = Shop(tmp_path)
    with ExitStack() as stack:
        LocalEngine().start(made.service, stack)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HEADGATE_URL", stack.enter_context(listening(made.service)))
        monkeypatch.setenv("HEADGATE_TOKEN", made.admin_token)
        yield made
    made.service.close()


@pytest.mark.parametrize("name", shell.SERVED)
def test_the_commands_of_a_page_run(name: str, shop: Shop) -> None:
    ran = 0
    for command in shell.commands(DOCS / name):
        if shell.reason(command):
            continue
        done = CliRunner().invoke(app, shell.words(put(command)))
        assert done.exit_code == 0, f"{command}: {done.output}"
        assert done.output.strip(), command
        ran += 1
        if command.startswith("headgate query add"):
            shop.rain()
    assert ran > 1


def put(command: str) -> str:
    """A command with the places and ids that exist here. `tail` ends with its first result."""
    for shown, place in PLACES.items():
        command = command.replace(shown, place)
    if "3f9c0a61d2" in command:
        listed = CliRunner().invoke(app, ["token", "list", "--json"])
        command = command.replace("3f9c0a61d2", json.loads(listed.stdout)["tokens"][-1]["id"])
    return f"{command} --rows 1" if command.startswith("headgate query tail") else command
