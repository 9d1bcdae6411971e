"""Processes that play histories for another one. They end with it, and leave no folder behind."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
import threading
import time
from pathlib import Path

FOLDER = "headgate-chaos"
"""Folders of a process are named after it: `headgate-chaos-<process>-...`."""
LOOK_S = 0.5


def end_with_parent() -> None:
    """End this process soon after the one that started it has ended. An interrupt is for that one alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_S)
        remove_folders(os.getpid())
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def new_folder() -> Path:
    """A folder in memory for this process. It is removed at the end, or by a later process."""
    remove_folders()
    path = tempfile.mkdtemp(prefix=f"{FOLDER}-{os.getpid()}-", dir=_root())
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return Path(path)


def remove_folders(*processes: int) -> None:
    """Remove the folders of these processes, and of those that have died."""
    for folder in Path(_root()).glob(f"{FOLDER}-*"):
        owner = folder.name.split("-")[2]
        if owner.isdecimal() and (int(owner) in processes or not _lives(int(owner))):
            shutil.rmtree(folder, ignore_errors=True)


def _root() -> str:
    from headgate.storage.bin_cache import cache_root  # a planted bug may be there: not before it is

    return cache_root()


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True
