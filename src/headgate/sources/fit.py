"""The columns of a file in the declared types: what is changed without loss, and what is refused.

- A column that the declaration lacks is left out.
- A column that the file lacks is null. A file with rows that has none of the declared columns is refused.
- If the file lies in a folder `column=value`, a declared column of that name has this value.
- Integers and floats are widened, decimals too, and integers become floats or decimals that hold all of them. Units of
  time are changed if no value is lost. Dictionaries and Arrow's large types become plain ones.
- Any other difference is refused. So is a timestamp without a zone where one with a zone is declared.
- Lists, structs and maps must have the declared fields, in that order; the same rules hold for their values.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from headgate.errors import SourceFailed
from headgate.sources.place import WAY_OUT, Place
from headgate.state.payload import plain, plain_type

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
"""Decimal digits that hold every integer of so many bits."""
_MANTISSA = {16: 11, 32: 24, 64: 53}
"""The bits of an integer that a float of so many bits holds exactly."""
_SHOWN = 10
"""How many columns of a file a message names."""
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def fit(table: pa.Table, schema: pa.Schema, place: Place, path: str) -> pa.Table:
    """The rows of the file at `path` in exactly the declared columns."""
    from headgate.state.conform import (
        conform_table,
    )  # it loads compiled code, which a driver that plans does not need

    where, have, folders = place.path(path), set(table.column_names), _folders(path)
    columns = []
    for field in schema:
        if field.name in folders:
            columns.append(_repeated(folders[field.name], field, table.num_rows, where))
            continue
        if field.name not in have:
            columns.append(_missing(field, table.num_rows, where))
            continue
        column = plain(table.column(field.name))
        simple = plain_of(column.type)
        if not widens(simple, field.type):
            raise _misfit(where, field, column.type)
        try:
            if simple != column.type:
                column = column.cast(simple)
            only = pa.schema([field])
            columns.append(conform_table(pa.table({field.name: column}), only).column(0))
        except pa.ArrowException as error:
            raise SourceFailed(
                f"{where}: column {field.name} is {column.type} in the file and {field.type} in the declared schema, and some "
                f"value cannot be changed without loss: {error}. Declare {plain_of(column.type)}. {WAY_OUT}"
            ) from error
    return pa.Table.from_arrays(columns, schema=schema)


def check_any(have: Collection[str], schema: pa.Schema, place: Place, path: str) -> None:
    """Refuse a file that has none of the declared columns: all its rows would be null."""
    names = inside(schema, path)
    if not names or not names.isdisjoint(have):
        return
    listed = sorted(have)
    shown = ", ".join(listed[:_SHOWN]) + (", ..." if len(listed) > _SHOWN else "")
    wanted = {name.lower() for name in names}
    close = [name for name in listed if name.lower() in wanted]
    case = f" Upper and lower case count: {close[0]} has another case than declared." if close else ""
    raise SourceFailed(
        f"{place.path(path)} has none of the declared columns: it has {shown or 'no column'}, and declared are "
        f"{', '.join(schema.names)}.{case} Declare the columns as they are in the file, or write the file anew, under "
        f"another name. {WAY_OUT}"
    )


def inside(schema: pa.Schema, path: str) -> set[str]:
    """The declared columns that do not come from the folders in which a file lies."""
    return set(schema.names) - _folders(path).keys()


def plain_of(kind: pa.DataType) -> pa.DataType:
    """The type without dictionaries and without Arrow's large and view types; unsigned integers become signed ones.

    >>> plain_of(pa.dictionary(pa.int32(), pa.large_string())), plain_of(pa.uint32())
    (DataType(string), DataType(int64))
    """
    t = pa.types
    if t.is_dictionary(kind):
        return plain_of(kind.value_type)
    if t.is_large_string(kind) or t.is_string_view(kind):
        return pa.string()
    if t.is_large_binary(kind) or t.is_fixed_size_binary(kind) or t.is_binary_view(kind):
        return pa.binary()
    if t.is_unsigned_integer(kind):
        return {8: pa.int16(), 16: pa.int32(), 32: pa.int64()}.get(kind.bit_width, pa.decimal128(20, 0))
    if t.is_float16(kind):
        return pa.float32()
    if t.is_date64(kind):
        return pa.date32()
    if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    if t.is_map(kind):
        return pa.map_(plain_of(kind.key_type), _plain_field(kind.item_field))
    if t.is_struct(kind):
        return pa.struct([_plain_field(field) for field in kind])
    return kind


def _plain_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, plain_of(field.type), field.nullable)


def declared(schema: pa.Schema) -> pa.Schema:
    """The schema that is taken from a file if the user declares none: plain types, and times in microseconds."""
    return pa.schema([pa.field(field.name, _in_micros(plain_of(field.type))) for field in schema])


def _in_micros(kind: pa.DataType) -> pa.DataType:
    t = pa.types
    if t.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if t.is_duration(kind):
        return pa.duration("us")
    if t.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_micros(kind.value_type)))
    if t.is_map(kind):
        return pa.map_(_in_micros(kind.key_type), kind.item_field.with_type(_in_micros(kind.item_type)))
    if t.is_struct(kind):
        return pa.struct([field.with_type(_in_micros(field.type)) for field in kind])
    return kind


def widens(have: pa.DataType, want: pa.DataType) -> bool:
    """Whether values of a plain type can be changed to another one without loss, or can be tried.

    >>> widens(pa.int32(), pa.float64()), widens(pa.int64(), pa.float64()), widens(pa.timestamp("ns"), pa.timestamp("us"))
    (True, False, True)
    """
    want = plain_type(want)
    if have == want or pa.types.is_null(have):
        return True
    return bool(_nested(have, want) if pa.types.is_nested(have) else _scalar(have, want))


def _scalar(have: pa.DataType, want: pa.DataType) -> Any:
    t = pa.types
    if t.is_signed_integer(have):
        if t.is_floating(want):
            return _MANTISSA[want.bit_width] >= have.bit_width
        if t.is_decimal(want):
            return want.precision - want.scale >= _DIGITS[have.bit_width]
        return t.is_signed_integer(want) and want.bit_width >= have.bit_width
    if t.is_floating(have):
        return t.is_floating(want) and want.bit_width >= have.bit_width
    if t.is_decimal(have):
        whole = have.precision - have.scale
        return t.is_decimal(want) and want.scale >= have.scale and want.precision - want.scale >= whole
    if t.is_timestamp(have):
        return t.is_timestamp(want) and (have.tz is None) == (want.tz is None)
    return (t.is_duration(have) and t.is_duration(want)) or (t.is_time(have) and t.is_time(want))


def _nested(have: pa.DataType, want: pa.DataType) -> Any:
    t = pa.types
    if t.is_list(have):
        return t.is_list(want) and widens(have.value_type, want.value_type)
    if t.is_map(have):
        keys = t.is_map(want) and widens(have.key_type, want.key_type)
        return keys and widens(have.item_type, want.item_type)
    same = t.is_struct(have) and t.is_struct(want) and [f.name for f in have] == [f.name for f in want]
    return same and all(widens(a.type, b.type) for a, b in zip(have, want, strict=True))


def nulls(kind: pa.DataType, rows: int) -> pa.Array:
    """So many nulls of a type."""
    empty = pa.nulls(rows, plain_type(kind))
    return empty if kind == empty.type else pa.ExtensionArray.from_storage(kind, empty)


def _folders(path: str) -> dict[str, str]:
    """The columns that folders name, and their values.

    >>> _folders("day=2024-01-31/part-0.parquet")
    {'day': '2024-01-31'}
    """
    named = (part.partition("=") for part in path.split("/")[:-1] if "=" in part)
    return {unquote(name): unquote(value) for name, _, value in named}


def _repeated(text: str, field: pa.Field, rows: int, where: str) -> pa.ChunkedArray:
    if text == _NO_VALUE:
        return _missing(field, rows, where)
    try:
        value = pa.array([text]).cast(field.type)
    except pa.ArrowException as error:
        raise SourceFailed(
            f"{where}: the folder {field.name}={text} gives no {field.type} for the column: {error}. "
            f"Declare another type for the column, such as string. {WAY_OUT}"
        ) from error
    return pa.chunked_array([pa.repeat(value[0], rows)], field.type)


def _missing(field: pa.Field, rows: int, where: str) -> pa.ChunkedArray:
    if not field.nullable:
        raise SourceFailed(
            f"{where} has no column {field.name}, which the declared schema says is never null. "
            f"Declare it nullable. {WAY_OUT}"
        )
    return pa.chunked_array([nulls(field.type, rows)], field.type)


def _misfit(where: str, field: pa.Field, have: pa.DataType) -> SourceFailed:
    if pa.types.is_timestamp(have) and pa.types.is_timestamp(plain_type(field.type)):
        remedy = (
            "A time with a zone and one without are not the same: declare the column as it is in the file"
        )
    else:
        remedy = "Declare the column as it is in the file, or write the file anew, under another name"
    return SourceFailed(
        f"{where}: column {field.name} is {have} in the file and {field.type} in the declared schema. {remedy}. {WAY_OUT}"
    )
