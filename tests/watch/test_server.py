"""The server of the page: what it answers, what it refuses, and that it needs nothing from elsewhere."""

import json
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from importlib.resources import files

import pytest
from tests.watch.skewed import Skewed
from typer.testing import CliRunner

from headgate.cli import app
from headgate.cli.console import Output
from headgate.cli.watch import watch
from headgate.errors import ConfigError
from headgate.watch import server
from headgate.watch.reader import CheckpointReader
from headgate.watch.record import Timing
from headgate.watch.server import FILES, LiveView, Page


@pytest.fixture
def page(recorded, monkeypatch):
    monkeypatch.setattr(server, "NEAR", 0.0)
    with Page(LiveView(CheckpointReader(recorded))) as served:
        yield served


def get(url: str, **headers: str):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


def test_the_files_of_the_page_need_nothing_from_elsewhere() -> None:
    for name in FILES.values():
        text = files("headgate.watch").joinpath("page", name).read_text(encoding="utf-8")
        assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(|innerHTML", text), name
        assert not re.findall(r"""(?:src|href)=["'](?!data:|style\.css|page\.js)""", text), name


def test_what_it_serves(page, recorded) -> None:
    for path, name in FILES.items():
        status, headers, body = get(page.url + path[1:])
        assert (status, body) == (200, files("headgate.watch").joinpath("page", name).read_bytes())
        assert "default-src 'none'" in headers["Content-Security-Policy"]
    status, headers, body = get(page.url + "data")
    data = json.loads(body)
    assert (data["name"], data["problem"], data["stages"][0]["batch"]) == (recorded, "", 11)
    assert get(page.url + "data", **{"If-None-Match": headers["ETag"]})[0] == 304
    assert get(page.url + "journal/../../secrets")[0] == 404


def test_what_if(page) -> None:
    status, _, body = get(page.url + "whatif?stage=0&policy=rebuild")
    assert (status, json.loads(body)["policy"]) == (200, "rebuild")
    for asked, said in (
        ("stage=0&policy=nope", "unknown policy 'nope'"),
        ("stage=7&policy=static", "stage 7 has no batches"),
        ("stage=x&policy=static", "is not a number"),
    ):
        status, _, body = get(f"{page.url}whatif?{asked}")
        assert (status, said in json.loads(body)["message"]) == (400, True), asked


def test_it_only_reads_and_only_for_this_machine(page) -> None:
    assert page.url.startswith("http://127.0.0.1:")
    request = urllib.request.Request(page.url + "data", method="POST", data=b"{}")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=20)
    refused.value.close()
    assert refused.value.code == 501
    assert get(page.url + "data", Host="evil.example")[0] == 403
    assert get(page.url + "data", Host="localhost:1")[0] == 200


def test_a_new_batch_and_a_new_state_are_new_versions(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(server, "NEAR", 0.0)
    skewed, state, times = Skewed(str(tmp_path / "c"), rows=100), "running", dict[int, Timing]()
    skewed.run(1)
    view = LiveView(CheckpointReader(str(tmp_path / "c")), state=lambda: state, timings=lambda stage: times)
    tags = [view.current()[0]]
    skewed.run(1)
    tags.append(view.current()[0])
    state = "ended"
    tags.append(view.current()[0])
    times[1] = Timing(1.0, 2.0, 3.0)
    tag, body = view.current()
    assert len({*tags, tag}) == 4
    assert view.current()[0] == tag
    stage = json.loads(body)["stages"][0]
    assert stage["timeline"][-1]["steps"]["commit"] == 2.0
    assert "commit" not in stage["timeline"][0]["steps"]


def test_a_damaged_checkpoint_is_told_and_what_was_known_stays(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(server, "NEAR", 0.0)
    Skewed(str(tmp_path / "c"), rows=100).run(2)
    view = LiveView(CheckpointReader(str(tmp_path / "c")))
    view.current()
    newest = max((tmp_path / "c" / "log").glob("*.json"))
    newest.write_bytes(newest.read_bytes()[:-5] + b"xxxxx")
    data = json.loads(view.current()[1])
    assert "is damaged" in data["problem"]
    assert data["stages"][0]["batch"] == 1


def test_closing_twice_is_harmless_and_a_port_in_use_is_told(recorded) -> None:
    closed = []
    view = LiveView(CheckpointReader(recorded))
    page = Page(view, closed=lambda: closed.append(True))
    with pytest.raises(ConfigError, match="choose another port"):
        Page(view, port=int(page.url.rstrip("/").rpartition(":")[2]))
    page.close()
    page.close()
    assert (closed, page.is_open) == ([True], False)


def test_the_command(recorded, tmp_path, capsys) -> None:
    refused = CliRunner().invoke(app, ["watch", str(tmp_path)])
    assert (refused.exit_code, "is not the checkpoint of a query" in refused.stderr) == (1, True)
    pages, threads = [], threading.active_count()

    def stop(self: Page) -> None:
        pages.append((self.url, get(self.url)[0]))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Page, "wait", stop)
        watch(recorded, "127.0.0.1", 0, Output(as_json=True))
    assert pages == [(json.loads(capsys.readouterr().out)["url"], 200)]
    assert threading.active_count() == threads


def heed_interrupts():
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_the_command_follows_a_query_of_another_process(tmp_path) -> None:
    skewed = Skewed(str(tmp_path / "c"), rows=100)
    skewed.run(1)
    words = [sys.executable, "-m", "headgate", "watch", str(tmp_path / "c"), "--port", "0", "--json"]
    pipe = subprocess.PIPE
    # A shell that runs the tests in the background has them ignore SIGINT, and children inherit that.
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, preexec_fn=heed_interrupts) as child:
        assert child.stdout is not None
        url = ""
        while not url.endswith("}\n"):
            url += child.stdout.readline()
        url = json.loads(url)["url"]
        skewed.run(2)
        while (data := json.loads(get(url + "data")[2]))["stages"][0]["batch"] != 2:
            assert child.poll() is None
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=30)
    assert (child.returncode, data["problem"]) == (130, "")
    skewed.run(1)  # it was not disturbed
    assert skewed.stage.journal()[-1].report.batch == 3
