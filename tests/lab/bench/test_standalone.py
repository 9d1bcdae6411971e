"""A cluster of the benches ends with whoever started it, even if that is killed."""

import os
import signal
import subprocess
import sys
import time

from headgate_lab.bench.standalone import WITH_PARENT

START = """
import subprocess, sys, time
child = subprocess.Popen(
    ["sh", "-c", sys.argv[1], "sh", "sh", "-c", "sleep 300 & echo $!; wait"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
)
print(child.stdout.readline().decode().strip(), flush=True)
time.sleep(300)
"""


def _runs(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat", encoding="ascii") as file:
            return file.read().split()[2] != "Z"
    except FileNotFoundError:
        return False


def test_what_a_killed_process_has_started_ends_too() -> None:
    parent = subprocess.Popen([sys.executable, "-c", START, WITH_PARENT], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    grandchild = int(parent.stdout.readline())
    assert _runs(grandchild)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 30
    while _runs(grandchild) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _runs(grandchild)
    parent.stdout.close()
