"""A replay of a numbered trace places queries as a host does by name."""

import numpy as np
import pytest

from headgate.errors import ConfigError, NoRoom
from headgate.hosting import NO_REPAIR, RULES, Balance, Host, OnRand, Replay, Reserved, Workload
from headgate.hosting.placement.state import MOVED_QUERIES

RATES = {f"s{i}": 1.0 + i % 3 for i in range(12)}
READS = {f"q{i}": [f"s{i % 12}", f"s{(i * 5 + i // 12) % 12}"] for i in range(90)}
LOAD = Workload.from_names(RATES, READS)


@pytest.mark.parametrize("name", sorted(set(RULES) - {"on-rand"}))
def test_replay_and_host_agree(name: str) -> None:
    host = Host(RATES, servers=4, rule=name, repair=NO_REPAIR)
    replay = Replay(LOAD, np.ones(4), RULES[name](), repair=NO_REPAIR)
    assert replay.arrive(np.arange(90)).tolist() == [
        host.place(q, reads).server for q, reads in READS.items()
    ]
    replay.depart(np.arange(0, 90, 2))
    for query in list(READS)[::2]:
        host.remove(query)
    assert replay.replication == pytest.approx(host.status().replication)
    again = [host.place(query, READS[query]).server for query in list(READS)[::2]]
    assert replay.arrive(np.arange(0, 90, 2)).tolist() == again
    assert replay.assignment(np.full(4, np.inf)).traffic == pytest.approx(host.status().traffic)


def test_replay_and_host_have_the_repair_of_their_rule() -> None:
    """The default repairs unless that is switched off, everywhere; the paper's rules do not."""
    for name in ("rare-first", "least-cost"):
        host, plain = Host(RATES, servers=4, rule=name), Host(RATES, servers=4, rule=name, repair=NO_REPAIR)
        replay = Replay(LOAD, np.ones(4), RULES[name]())
        moved = sum(len(host.place(query, reads).moves) for query, reads in READS.items())
        for query, reads in READS.items():
            assert plain.place(query, reads).moves == ()
        replay.arrive(np.arange(90))
        assert (moved > 0) == (replay.state.totals[MOVED_QUERIES] > 0) == (name == "rare-first")
        assert (host.status().traffic < plain.status().traffic) == (name == "rare-first")


def test_what_a_replay_cannot_do_raises() -> None:
    with pytest.raises(ConfigError, match="needs random numbers"):
        Replay(LOAD, np.ones(2), OnRand())
    with pytest.raises(ConfigError, match="use a Host"):
        Replay(LOAD, np.ones(2), Reserved({}))
    with pytest.raises(NoRoom, match="'q4' of cost 1 fits no server within capacity 2"):
        Replay(LOAD, np.ones(2), RULES["least-cost"](), balance=Balance(capacity=2)).arrive(np.arange(9))
