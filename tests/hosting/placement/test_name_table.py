"""The numbers of names: what no query has any more is dropped."""

from headgate.hosting import Host


def test_types_that_no_query_has_are_dropped() -> None:
    host = Host({f"s{i}": 1.0 for i in range(60)}, servers=3, rule="least-qt")
    host.place("stays", ["s0", "s1"])
    for i in range(3000):
        host.place("passes", {f"s{i % 60}", f"s{(i * 7 + i // 60) % 60}"})
        host.remove("passes")
    assert len(host._names.types) < 1500
    assert host._state.server_of.shape[0] < 10
    here = next(o for o in host.explain(["s0", "s1"]).options if o.server == host.server_of("stays"))
    assert here.score == 0.0, "it has one type, and that is this one"
