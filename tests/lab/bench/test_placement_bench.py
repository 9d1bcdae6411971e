"""The family of workloads: drawn anew by seed, the same for the same seed, and no placement beats its lower bound."""

import numpy as np
import pytest

from headgate.errors import ConfigError
from headgate.hosting import DEFAULT_REPAIR, DEFAULT_RULE, LeastCost
from headgate.hosting.events import PLACE, REMOVE
from headgate_lab import bench
from headgate_lab.bench.placement.family import family
from headgate_lab.bench.placement.trial import play


def test_instances_are_drawn_anew_by_seed() -> None:
    one, same, other = family(3, queries=300), family(3, queries=300), family(4, queries=300)
    assert len({(i.kind, i.name) for i in one}) == len(one) >= 50
    for a, b, c in zip(one, same, other, strict=True):
        assert np.array_equal(a.load.source, b.load.source)
        assert np.array_equal(a.query, b.query)
        assert not (np.array_equal(a.query, c.query) and np.array_equal(a.load.source, c.load.source))
        assert a.load.rates.shape[0] > a.load.source.max()
        hosted: set[int] = set()
        for event, query in zip(a.events.tolist(), a.query.tolist(), strict=True):
            assert (query in hosted) == (event == REMOVE)
            hosted ^= {query}
            assert event in (PLACE, REMOVE)


def test_every_kind_of_the_issue_is_there() -> None:
    kinds = {i.kind for i in family(5, queries=200)}
    assert kinds == {"complete blocks", "sparse blocks", "degrees", "rates", "giants", "churn"}


def test_no_placement_is_below_its_bound() -> None:
    for instance in family(6, queries=200)[::4]:
        for outcome in (play(instance, DEFAULT_RULE, DEFAULT_REPAIR), play(instance, LeastCost())):
            assert outcome.final >= outcome.bound * (1 - 1e-9)
            assert outcome.factor >= 1 - 1e-9


def test_a_part_or_a_seed_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="has no part 'x'"):
        bench.run("placement", only=["x"])
    with pytest.raises(ConfigError, match="has no seed"):
        bench.run("codecs", seed=3)
