"""How a user names a catalog of Iceberg."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.errors import ConfigError, required


def open_catalog(catalog: Any) -> Any:
    """A catalog: one of pyiceberg's, its name in pyiceberg's configuration, or what `pyiceberg.catalog.load_catalog` takes
    (a `name` and properties), as a dict.
    """
    catalogs = required("pyiceberg.catalog", "an Iceberg table")
    if isinstance(catalog, catalogs.Catalog):
        return catalog
    try:
        if isinstance(catalog, Mapping):
            return catalogs.load_catalog(**catalog)
        return catalogs.load_catalog(catalog)
    except Exception as error:
        raise ConfigError(
            f"the Iceberg catalog {catalog if isinstance(catalog, str) else ''!r} cannot be opened: {error}; name one of "
            "~/.pyiceberg.yaml, or give its properties: catalog={'type': 'sql', 'uri': 'sqlite:///catalog.db', 'warehouse': '...'}"
        ) from error
