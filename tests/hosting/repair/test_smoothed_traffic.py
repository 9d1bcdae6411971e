"""The weights of readers and streams against their definition."""

import pytest

from headgate.hosting.repair.smoothed_traffic import DISTINCT_WEIGHTS, reader_weight, stream_weight


def test_a_stream_weighs_what_its_readers_weigh() -> None:
    for c in range(2 * DISTINCT_WEIGHTS):
        readers = [min(i, DISTINCT_WEIGHTS) ** -1.5 for i in range(1, c + 1)]
        assert stream_weight(c) == pytest.approx(sum(readers))
        assert c == 0 or reader_weight(c) == pytest.approx(readers[-1])
