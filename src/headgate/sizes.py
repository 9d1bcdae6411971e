"""Amounts of memory as people write them."""

from __future__ import annotations

import math
import re

from headgate.errors import ConfigError

_UNITS = {
    "": 1,
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "KI": 2**10,
    "MI": 2**20,
    "GI": 2**30,
    "TI": 2**40,
}


def parse_bytes(amount: str | int, what: str) -> int:
    """Bytes from "512MB", "1.5 GiB" or a number; `what` names the setting in the error.

    >>> parse_bytes("512MB", "memory"), parse_bytes("1.5 GiB", "memory"), parse_bytes(4096, "memory")
    (512000000, 1610612736, 4096)
    """
    text = str(amount).strip().upper()
    match = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*([KMGT]?I?)B?", text)
    size = float(match[1]) * _UNITS.get(match[2], math.nan) if match else math.nan
    if isinstance(amount, bool) or not size >= 1:
        raise ConfigError(f"{what}={amount!r} is not an amount of memory; write bytes, or '512MB', '2GiB'")
    return int(size)


def show_bytes(size: float) -> str:
    """Bytes as people read them.

    >>> show_bytes(999), show_bytes(1_234_567), show_bytes(-5e9)
    ('999 B', '1.2 MB', '-5.0 GB')
    """
    for unit, step in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(size) >= step:
            return f"{size / step:.1f} {unit}"
    return f"{size:.0f} B"
