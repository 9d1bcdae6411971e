"""Columnar keyed state, one table per bin: pure functions over arrays. Files belong to `headgate.storage`."""
