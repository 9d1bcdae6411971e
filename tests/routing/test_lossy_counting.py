"""The lossy counter's guarantee (PX-5), its sliding form (PX-6), and a per-item oracle."""

import numpy as np
import pytest

from headgate.routing.lossy_counting import LossyCounter, SlidingLossyCounter


def slow_lossy(stream, epsilon):
    """The paper's text, one item at a time."""
    window = int(np.ceil(1 / epsilon))
    held: dict[int, list[int]] = {}
    for n, key in enumerate(stream):
        index = n // window + 1
        if key in held:
            held[key][0] += 1
        else:
            held[key] = [1, index - 1]
        if (n + 1) % window == 0:
            held = {k: v for k, v in held.items() if sum(v) > index}
    return held


@pytest.mark.parametrize("epsilon", [0.3, 0.1, 0.01])
@pytest.mark.parametrize("length", [0, 1, 10, 999, 5000])
def test_equals_the_text_of_the_paper_item_by_item(epsilon: float, length: int) -> None:
    stream = np.random.default_rng(length).zipf(1.3, length) % 500
    counter = LossyCounter(epsilon=epsilon)
    for part in np.array_split(stream, 7):
        counter.add(part)
    keys, counts, errors = counter.entries()
    got = {int(k): [int(c), int(e)] for k, c, e in zip(keys, counts, errors, strict=True)}
    assert got == slow_lossy(stream.tolist(), epsilon)
    assert len(counter) == len(got)


@pytest.mark.parametrize("seed", range(5))
def test_guarantee_every_key_above_delta_and_none_below_delta_minus_epsilon(seed: int) -> None:
    delta, epsilon, items = 0.01, 0.001, 100_000
    stream = np.random.default_rng(seed).zipf(1.2, items) % 10_000
    counter = LossyCounter(epsilon=epsilon)
    counter.add(stream)
    truth = np.bincount(stream, minlength=10_000)
    keys, counts = counter.frequent(delta)
    assert set(np.flatnonzero(truth > delta * items)) <= set(keys.tolist())
    assert (truth[keys] >= (delta - epsilon) * items).all()
    assert (counts <= truth[keys]).all()
    assert (truth[keys] - counts <= epsilon * items).all()


def test_one_key_only_and_empty_stream() -> None:
    counter = LossyCounter(epsilon=0.1)
    assert counter.frequent(0.5)[0].size == 0
    counter.add(np.full(1000, 7))
    keys, share = counter.frequencies(0.5)
    assert (keys.tolist(), share.tolist()) == ([7], [1.0])


def test_all_keys_equal_in_frequency_leave_nothing_behind() -> None:
    counter = LossyCounter(epsilon=0.01)
    counter.add(np.arange(10_000))
    assert len(counter) == 0


@pytest.mark.parametrize("counters", [2, 3, 5])
def test_serving_counter_covers_one_to_one_and_a_bit_windows(counters: int) -> None:
    window = 1200
    sliding = SlidingLossyCounter(epsilon=0.01, window=window, counters=counters)
    seen = set()
    for step in range(400):
        sliding.add(np.full(30, step))
        if sliding.items >= window:
            seen.add(sliding.serving.items)
    assert min(seen) >= window
    assert max(seen) <= window + window // (counters - 1)
    assert max(seen) > window + window // (counters - 1) - 60


def test_sliding_counter_forgets_what_is_gone() -> None:
    sliding = SlidingLossyCounter(epsilon=0.01, window=1000)
    sliding.add(np.full(5000, 1))
    sliding.add(np.full(1600, 2))
    assert sliding.frequent(0.5)[0].tolist() == [2]
    assert sliding.frequencies(0.5)[1].tolist() == [1.0]
    assert len(sliding) >= 1


def test_sliding_start_up_serves_what_there_is() -> None:
    sliding = SlidingLossyCounter(epsilon=0.01, window=1000)
    sliding.add(np.full(10, 3))
    assert sliding.serving.items == 10


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: LossyCounter(epsilon=0), "epsilon"),
        (lambda: SlidingLossyCounter(epsilon=0.1, window=10, counters=1), "two counters"),
        (lambda: SlidingLossyCounter(epsilon=0.1, window=11), "multiple"),
    ],
)
def test_bad_input_is_named(make, words) -> None:
    with pytest.raises(ValueError, match=words):
        make()
