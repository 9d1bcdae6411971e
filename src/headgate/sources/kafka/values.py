"""Values of records as columns: JSON objects, text, or bytes as they are. What does not parse is
told apart, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

Values = Sequence[bytes | None]
_FEW = 8
"""So few values are parsed one by one."""


@dataclass(frozen=True)
class Parsed:
    """The columns of the values that parse, and why the others do not, by their place."""

    table: pa.Table
    bad: Mapping[int, str]


def as_json(values: Values, kinds: Mapping[str, pa.DataType]) -> Parsed:
    """A row for each value: an object, whose other fields are ignored and whose missing ones are
    null. A record without a value has a row of nulls.

    >>> parsed = as_json([b'{"n": 1}', None, b"oh"], {"n": pa.int64()})
    >>> parsed.table["n"].to_pylist(), parsed.bad
    ([1, None], {2: 'is not JSON: Expecting value: line 1 column 1 (char 0)'})
    """
    texts = [b"{}" if value is None else value for value in values]
    tables: list[pa.Table] = []
    bad: dict[int, str] = {}
    _parse(texts, 0, kinds, tables, bad)
    if not tables:
        return Parsed(pa.schema(list(kinds.items())).empty_table(), bad)
    return Parsed(pa.concat_tables(tables), bad)


def _parse(
    texts: Sequence[bytes],
    at: int,
    kinds: Mapping[str, pa.DataType],
    tables: list[pa.Table],
    bad: dict[int, str],
) -> None:
    """Parse values together; if some do not parse, halve until they are found."""
    if not texts:
        return
    table = _together(texts, kinds)
    if table is not None:
        tables.append(table)
    elif len(texts) > _FEW:
        middle = len(texts) // 2
        _parse(texts[:middle], at, kinds, tables, bad)
        _parse(texts[middle:], at + middle, kinds, tables, bad)
    else:
        for place, text in enumerate(texts, at):
            try:
                tables.append(_alone(text, kinds))
            except ValueError as error:
                bad[place] = str(error)


def _together(texts: Sequence[bytes], kinds: Mapping[str, pa.DataType]) -> pa.Table | None:
    """The values as lines. If each begins and ends as an object does, then none can run into the
    next, so as many rows as lines means one object a value.
    """
    from headgate.sources.json_format import parse_block  # it loads a part of Arrow

    data = _lines(texts) or _lines([text.strip().replace(b"\n", b"\r") for text in texts])
    table = parse_block(data, kinds) if data else None
    return table if table is not None and table.num_rows == len(texts) else None


def _lines(texts: Sequence[bytes]) -> bytes:
    """The values as lines; nothing if one has a line break, or does not begin and end as an object."""
    data, breaks = b"\n".join(texts), len(texts) - 1
    whole = data.startswith(b"{") and data.endswith(b"}")
    return data if whole and data.count(b"\n") == breaks == data.count(b"}\n{") else b""


def _alone(text: bytes, kinds: Mapping[str, pa.DataType]) -> pa.Table:
    from headgate.sources.json_lines import Unread, parse_lines

    table = _together([text], kinds)
    if table is not None:
        return table
    if not text.strip():
        raise ValueError("is empty")
    try:
        return parse_lines(text.strip().replace(b"\n", b"\r"), kinds, 0)
    except Unread as error:
        raise ValueError(str(error).removeprefix("the line at byte 0 ")) from error


def as_text(values: Values, name: str) -> Parsed:
    """Text in UTF-8."""
    try:
        return Parsed(pa.table({name: pa.array(values, pa.binary()).cast(pa.string())}), {})
    except pa.ArrowInvalid:
        texts: list[str | None] = []
        bad: dict[int, str] = {}
        for place, value in enumerate(values):
            try:
                texts.append(None if value is None else value.decode())
            except UnicodeDecodeError as error:
                bad[place] = f"is not UTF-8: {error}"
        return Parsed(pa.table({name: pa.array(texts, pa.string())}), bad)


def as_bytes(values: Values, name: str) -> Parsed:
    """Bytes as they are."""
    return Parsed(pa.table({name: pa.array(values, pa.binary())}), {})
