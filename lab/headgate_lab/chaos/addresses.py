"""What the simulated file systems share: how an address becomes a path, and back."""

from __future__ import annotations

from fsspec.spec import AbstractFileSystem


class Addressed(AbstractFileSystem):  # type: ignore[misc]
    """A file system whose addresses are its protocol and a path. fsspec has no types."""

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.removeprefix(f"{cls.protocol}://").rstrip("/")

    def unstrip_protocol(self, name: str) -> str:
        """A URL."""
        return f"{self.protocol}://{name}"

    def invalidate_cache(self, path: str | None = None) -> None:
        """There is no cache."""
