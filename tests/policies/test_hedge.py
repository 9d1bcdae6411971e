"""Learning from experts: the bound on the regret, and no look into the future."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from headgate.policies.hedge import guarded, most_missed, most_regret, weights

SIZES = st.tuples(st.integers(1, 60), st.integers(1, 6))
LOSSES = SIZES.flatmap(
    lambda size: arrays.arrays(
        np.float64, size, elements=st.floats(-1e3, 1e6) | st.sampled_from([0.0, 1.0, 1e-9])
    )
)


@given(LOSSES)
@settings(max_examples=150)
def test_it_loses_little_more_than_any_expert(losses) -> None:
    trust = weights(losses)
    mine = float((trust[:-1] * losses).sum())
    most = most_regret(losses) + 1e-9 * float(np.abs(losses).sum())
    assert (trust >= 0).all()
    assert trust.sum(axis=1) == pytest.approx(np.ones(len(losses) + 1))
    assert mine - losses.sum(axis=0).min() <= most


@given(LOSSES, st.integers(0, 59))
@settings(max_examples=60)
def test_weights_depend_on_what_was_lost_before_alone(losses, at) -> None:
    at = min(at, len(losses))
    changed = losses.copy()
    changed[at:] = 7.0
    assert (weights(changed)[: at + 1] == weights(losses)[: at + 1]).all()


def test_an_adversary_who_makes_it_wrong_in_every_step_comes_near_the_bound_and_not_beyond() -> None:
    losses = np.zeros((200, 2))
    for at in range(200):
        losses[at, int(weights(losses[:at])[-1].argmax())] = 1.0
    regret = (weights(losses)[:-1] * losses).sum() - losses.sum(axis=0).min()
    assert 0.3 * most_regret(losses) < regret <= most_regret(losses)


def test_the_one_who_is_always_better_is_trusted_soon_and_a_change_is_noticed() -> None:
    losses = np.tile([0.1, 0.3, 0.3], (40, 1))
    assert weights(losses)[8, 0] > 0.99
    turned = np.vstack([losses, np.tile([0.9, 0.1, 0.9], (40, 1))])
    assert weights(turned)[-1, 1] > 0.9


def test_learners_do_not_mix() -> None:
    rng = np.random.default_rng(3)
    losses = rng.random((4, 30, 3))
    assert (weights(losses) == np.stack([weights(each) for each in losses])).all()


@given(LOSSES.filter(lambda losses: losses.shape[1] > 1))
@settings(max_examples=150)
def test_the_first_is_hardly_missed_however_long_it_takes(losses) -> None:
    trust = guarded(losses)
    assert (trust >= 0).all()
    assert trust.sum(axis=1) == pytest.approx(np.ones(len(losses) + 1))
    missed = float((trust[:-1] * losses).sum() - losses[:, 0].sum())
    assert missed <= most_missed(losses) + 1e-9 * float(np.abs(losses).sum())


def test_others_that_are_always_worse_cost_no_more_in_a_longer_past() -> None:
    losses = np.tile([0.0, 1.0, 1.0], (4000, 1))
    missed = [(guarded(losses[:steps])[:-1] * losses[:steps]).sum() for steps in (400, 4000)]
    assert missed[0] == pytest.approx(missed[1])
    assert 0.5 * most_missed(losses) < missed[1] <= most_missed(losses)


def test_the_better_of_the_others_is_trusted_soon() -> None:
    losses = np.tile([0.3, 0.1, 0.4], (40, 1))
    assert guarded(losses)[12, 1] > 0.95


def test_without_a_difference_the_weights_stay() -> None:
    assert guarded(np.ones((5, 3)))[-1].tolist() == [0.5, 0.25, 0.25]
