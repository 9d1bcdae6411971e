"""Keys: decode undoes encode, and equal keys are exactly those with equal encodings."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.errors import UnsupportedType
from headgate.state.keys import KeyColumn, KeySpec
from headgate.testing.arrow import VALUES, column, columns, kinds, printed

FIXED = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.date32(), pa.timestamp("us", tz="UTC"), pa.duration("us"),
]  # fmt: skip


def spec_of(*types):
    return KeySpec(tuple(f"k{i}" for i in range(len(types))), types)


def encoded(keys: KeyColumn):
    """Each key as a value that can be compared."""
    if len(keys.offsets):
        return [keys.data[a:b].tobytes() for a, b in zip(keys.offsets[:-1], keys.offsets[1:], strict=True)]
    valid = keys.valid if len(keys.valid) else np.ones(len(keys), np.uint8)
    return [int(k) if v else None for k, v in zip(keys.data, valid, strict=True)]


@st.composite
def key_columns(draw):
    """Columns of one to four types with as many rows each; few values, so that some keys are equal."""
    types = draw(st.lists(kinds, min_size=1, max_size=4))
    n = draw(st.integers(0, 12))
    pools = [draw(columns(kind, min_size=1, max_size=3)) for kind in types]
    takes = [draw(st.lists(st.integers(0, len(p) - 1), min_size=n, max_size=n)) for p in pools]
    return [p.take(pa.array(t, pa.int64())) for p, t in zip(pools, takes, strict=True)]


@given(key_columns())
def test_there_and_back_and_equal_exactly_when_the_keys_are(arrays) -> None:
    spec = spec_of(*(a.type for a in arrays))
    hashes = np.arange(len(arrays[0]))
    keys = spec.encode(arrays, hashes)
    assert len(keys) == len(arrays[0])
    assert keys.hashes is hashes
    back = spec.decode(keys)
    assert [a.type for a in back] == list(spec.types)
    rows = list(zip(*(printed(a) for a in arrays), strict=True))
    assert list(zip(*(printed(a) for a in back), strict=True)) == rows
    codes = encoded(keys)
    assert [[a == b for b in codes] for a in codes] == [[a == b for b in rows] for a in rows]


@given(st.lists(st.tuples(st.text("ab", max_size=3), st.text("ab", max_size=3)), max_size=8))
@example([("ab", ""), ("a", "b"), ("", "ab")])
def test_the_border_between_two_strings_is_part_of_the_key(pairs) -> None:
    spec = spec_of(pa.string(), pa.string())
    left, right = ([p[i] for p in pairs] for i in (0, 1))
    keys = spec.encode(
        [column(left, pa.string()), column(right, pa.string())], np.zeros(len(pairs), np.int64)
    )
    assert len(set(encoded(keys))) == len(set(pairs))


def test_null_empty_and_zero_are_three_keys() -> None:
    strings = spec_of(pa.string()).encode([pa.array(["", None, "\0"])], np.zeros(3, np.int64))
    assert len(set(encoded(strings))) == 3
    numbers = spec_of(pa.int64()).encode([pa.array([0, None])], np.zeros(2, np.int64))
    assert encoded(numbers) == [0, None]


@pytest.mark.parametrize("kind", list(VALUES), ids=str)
def test_what_is_a_fixed_key(kind) -> None:
    assert spec_of(kind).is_fixed == (
        kind in FIXED or kind in (pa.timestamp("us"), pa.timestamp("us", tz="Europe/Amsterdam"))
    )
    assert not spec_of(kind, pa.int64()).is_fixed


def test_a_long_string_keeps_its_length() -> None:
    long = "x" * 70_000
    spec = spec_of(pa.string(), pa.int8())
    keys = spec.encode([pa.array([long, None]), pa.array([1, 2], pa.int8())], np.zeros(2, np.int64))
    assert [a.to_pylist() for a in spec.decode(keys)] == [[long, None], [1, 2]]


def test_a_type_that_cannot_be_a_key_is_named() -> None:
    with pytest.raises(UnsupportedType, match="key column 'k0' has type list"):
        _ = spec_of(pa.list_(pa.int8())).is_fixed
