"""Where a service stores what, and whether processes on several machines can see it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DATABASES = ("postgresql://", "postgres://")


@dataclass(frozen=True)
class Places:
    """The places of a service: paths or URLs."""

    folder: Path
    registry: str
    state: str
    push: str

    @classmethod
    def of(cls, folder: Path, registry: str = "", state: str = "", push: str = "") -> Places:
        """Places as they are configured; what is empty is in the folder. If the state is at a URL, pushed events are
        below it: a standby on another machine has to find both.
        """
        return cls(
            folder=folder,
            registry=registry or str(folder / "registry.db"),
            state=state or str(folder / "state"),
            push=push or (f"{state.rstrip('/')}/push" if "://" in state else str(folder / "push")),
        )

    @property
    def apart(self) -> bool:
        """Whether nothing of the service needs to be in the folder, so that its processes may have one each."""
        outside = not Path(self.state).is_relative_to(self.folder)
        return self.registry.startswith(DATABASES) and outside
