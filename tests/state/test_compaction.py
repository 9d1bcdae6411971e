"""Which bins are written whole: the oldest first, within what the deltas have paid for."""

from hypothesis import given
from hypothesis import strategies as st

from headgate.state.compaction import SHORTEST_CHAIN, bins_to_snapshot

bins = st.integers(0, 20)


@given(
    batch=st.integers(0, 60),
    bases=st.dictionaries(bins, st.integers(0, 60)),
    sizes=st.dictionaries(bins, st.integers(0, 100)),
    credit=st.integers(0, 500),
)
def test_the_oldest_long_chains_first_and_never_beyond_the_credit(batch, bases, sizes, credit) -> None:
    chosen, left = bins_to_snapshot(batch, bases, sizes, credit)
    cost = sum(sizes.get(b, 0) for b in chosen)
    assert left == credit - cost >= 0
    long = sorted((base, b) for b, base in bases.items() if batch - base >= SHORTEST_CHAIN)
    assert chosen == [b for _, b in long[: len(chosen)]]
    if len(chosen) < len(long):
        assert sizes.get(long[len(chosen)][1], 0) > left


def test_nothing_to_do_on_an_empty_checkpoint() -> None:
    assert bins_to_snapshot(0, {}, {}, 10) == ([], 10)


def test_a_chain_is_left_alone_until_it_is_long_enough() -> None:
    assert bins_to_snapshot(SHORTEST_CHAIN - 1, {0: 0}, {0: 1}, 100) == ([], 100)
    assert bins_to_snapshot(SHORTEST_CHAIN, {0: 0}, {0: 1}, 100) == ([0], 99)


def test_a_large_bin_waits_for_its_credit_and_is_not_passed_by() -> None:
    assert bins_to_snapshot(50, {0: 0, 1: 5}, {0: 90, 1: 10}, 50) == ([], 50)
    assert bins_to_snapshot(50, {0: 0, 1: 5}, {0: 90, 1: 10}, 100) == ([0, 1], 0)


def simulated(touched_in_batch, size, delta, batches):
    """Per batch the bytes written, and the bytes in the log, when `touched_in_batch(n)` are the bins of batch n."""
    bases: dict[int, int] = {}
    sizes: dict[int, int] = {}
    chains: dict[int, list[tuple[int, int]]] = {}
    credit, history = 0, []
    for batch in range(batches):
        chosen, credit = bins_to_snapshot(batch, bases, sizes, credit)
        written = 0
        for b in chosen:
            bases[b], chains[b] = batch, [(batch, sizes[b])]
            written += sizes[b]
        for b in touched_in_batch(batch):
            if b not in chosen:
                bases.setdefault(b, batch)
                chains.setdefault(b, []).append((batch, delta))
                written += delta
                credit += delta
            sizes[b] = size
        history.append((written, sum(n for chain in chains.values() for _, n in chain)))
    return history


def test_the_log_stays_within_about_twice_the_state_and_batches_cost_about_twice_their_deltas() -> None:
    history = simulated(lambda batch: range(20), 1000, 50, 2000)
    state, deltas = 20 * 1000, 20 * 50
    assert max(log for _, log in history[1000:]) <= 2 * state + SHORTEST_CHAIN * deltas
    assert sum(written for written, _ in history) <= 2.1 * deltas * len(history)
    assert max(written for written, _ in history[100:]) <= deltas + 1000 + deltas


def test_an_untouched_bin_is_rewritten_too_so_that_its_old_files_can_go() -> None:
    bases = {0: 0, 1: 90}
    assert bins_to_snapshot(100, bases, {0: 10, 1: 10}, 20)[0] == [0, 1]
