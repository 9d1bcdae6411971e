"""The service as a process, without Spark: its address and its admin's token."""

import socket
import subprocess
import sys

from headgate.service.process import admin_token, listen


def test_an_answer_does_not_wait_for_an_acknowledgement() -> None:
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_the_admins_token_is_made_once_and_only_its_owner_can_read_it(local) -> None:
    assert admin_token(local.service, local.folder)
    token = (local.folder / "token").read_text().strip()
    assert not admin_token(local.service, local.folder)
    assert (local.folder / "token").read_text().strip() == token
    assert local.service.authenticate(token).admin
    assert (local.folder / "token").stat().st_mode & 0o777 == 0o600


def test_what_stays_is_left_alone_by_the_collector_until_the_process_ends() -> None:
    code = "import duckdb; from headgate.service.collecting import settled; import gc; settled(); print(gc.get_freeze_count() > 1000)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("True\n", "")
