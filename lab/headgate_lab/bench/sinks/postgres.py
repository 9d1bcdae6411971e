"""A PostgreSQL server of one's own: in a new folder, on a Unix socket, gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def can_start() -> bool:
    """Whether PostgreSQL is installed here, and somebody may own a server."""
    return _owner() is not None and all(shutil.which(name) for name in ("initdb", "pg_ctl"))


@contextmanager
def server(*, durable: bool = True) -> Iterator[str]:
    """The URL of an empty database. Without `durable` it does not flush to disk."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-postgres-"))
    folder.chmod(0o777)
    options: dict[str, Any] = {} if os.geteuid() else {"user": _owner()}
    data = folder / "data"

    def run(*words: Any) -> None:
        subprocess.run([str(word) for word in words], check=True, capture_output=True, cwd=folder, **options)

    try:
        run(
            "initdb",
            "-D",
            data,
            "-U",
            "headgate",
            "--auth=trust",
            "--no-sync",
            "--encoding=UTF8",
            "--locale=C",
        )
        settings = f"-c listen_addresses= -c unix_socket_directories={folder}"
        settings += "" if durable else " -c fsync=off"
        run("pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", settings, "start")
        try:
            yield f"postgresql://headgate@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _owner() -> str | None:
    """The user who may own a server: root may not."""
    if os.geteuid():
        return pwd.getpwuid(os.geteuid()).pw_name
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        return None
