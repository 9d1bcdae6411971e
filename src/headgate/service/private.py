"""The folder of a service is nobody else's."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from headgate.errors import ConfigError

PRIVATE = 0o700


def private_folder(folder: Path) -> None:
    """Make a folder that only its owner can enter. One that was open to others is closed."""
    try:
        folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the folder {folder} cannot be made: {error.strerror}; choose another --folder"
        ) from error
    if folder.stat().st_mode & 0o077:
        with suppress(PermissionError):  # it belongs to another user, who decides
            folder.chmod(PRIVATE)
