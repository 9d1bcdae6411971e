"""Hashes of keys are those of Spark, one by one and as arrays."""

import numpy as np
import pytest
import xxhash

from headgate.routing.key_hash import hash_ints, hash_key


@pytest.mark.parametrize(
    "key, data",
    [
        (1, (1).to_bytes(8, "little")),
        (-1, (-1).to_bytes(8, "little", signed=True)),
        ("gate", b"gate"),
        (b"gate", b"gate"),
        (True, (1).to_bytes(4, "little")),
        (0.0, bytes(8)),
        (-0.0, bytes(8)),
    ],
)
def test_keys_hash_as_spark_hashes_them(key: object, data: bytes) -> None:
    wanted = xxhash.xxh64_intdigest(data, seed=42)
    assert hash_key(key) % 2**64 == wanted


def test_hash_of_a_tuple_chains_the_seed_and_none_leaves_it() -> None:
    first = hash_key("a")
    assert hash_key(("a", 2)) == hash_key(2, seed=first)
    assert hash_key(("a", None)) == first


def test_vectorised_hash_equals_the_scalar_one() -> None:
    values = np.array([0, 1, -1, 2**63 - 1, -(2**63), 123456789])
    assert hash_ints(values).tolist() == [hash_key(int(v)) for v in values]
    assert hash_key(2**80) == hash_key(str(2**80))
    assert hash_key(frozenset({1})) == hash_key("frozenset({1})")
