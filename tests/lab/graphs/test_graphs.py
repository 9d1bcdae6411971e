"""Graphs: R-MAT has the distribution it should, edges come out clean, and cliques agree with networkx."""

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import ConfigError
from headgate_lab.graphs import Edges, clean, count_cliques, orient, rmat

VERTICES = 9
pairs = st.lists(st.tuples(st.integers(0, VERTICES - 1), st.integers(0, VERTICES - 1)), max_size=40)


def draw(seed):
    return np.random.default_rng(seed).random


def edges(pairs, vertices=VERTICES):
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return Edges(ends[:, 0], ends[:, 1], vertices)


@given(pairs)
def test_a_clean_graph_has_each_pair_once_and_everything_else_is_counted(pairs) -> None:
    got = clean(edges(pairs))
    kept = list(zip(got.edges.source.tolist(), got.edges.target.tolist(), strict=True))
    assert kept == sorted({(min(p), max(p)) for p in pairs if p[0] != p[1]})
    assert got.self_loops == sum(a == b for a, b in pairs)
    assert len(kept) + got.self_loops + got.duplicates == len(pairs)


@given(pairs)
def test_orienting_keeps_the_edges_and_points_to_the_higher_degree(pairs) -> None:
    simple = clean(edges(pairs)).edges
    graph = orient(simple)
    degree = np.bincount(np.concatenate((simple.source, simple.target)), minlength=VERTICES)
    got = set()
    for vertex in range(VERTICES):
        ends = graph.targets[graph.offsets[vertex] : graph.offsets[vertex + 1]]
        assert all(np.diff(ends) > 0)
        assert all(ends > vertex)
        assert all(degree[graph.names[ends]] >= degree[graph.names[vertex]])
        got |= {frozenset((int(graph.names[vertex]), int(graph.names[end]))) for end in ends}
    assert got == {frozenset(p) for p in pairs if p[0] != p[1]}
    assert graph.degrees.max(initial=0) <= np.sqrt(2 * len(simple))


@given(pairs, st.integers(2, 5))
def test_cliques_are_the_sets_with_all_edges(pairs, size) -> None:
    have = {frozenset(p) for p in pairs if p[0] != p[1]}
    slow = sum(
        all(frozenset(p) in have for p in combinations(some, 2))
        for some in combinations(range(VERTICES), size)
    )
    assert count_cliques(orient(clean(edges(pairs)).edges), size) == slow


def test_triangles_and_cliques_of_a_generated_graph_agree_with_networkx() -> None:
    raw = rmat(9, 6000, draw(3), noise=0.1)
    got = clean(raw)
    assert got.duplicates > 0
    assert got.self_loops > 0
    graph = nx.Graph(zip(raw.source.tolist(), raw.target.tolist(), strict=True))
    graph.remove_edges_from(nx.selfloop_edges(graph))
    oriented = orient(got.edges)
    assert len(got.edges) == graph.number_of_edges() == count_cliques(oriented, 2)
    assert count_cliques(oriented, 3) == sum(nx.triangles(graph).values()) // 3 > 10_000


def test_the_same_seed_gives_the_same_graph_and_shuffling_only_renames() -> None:
    one, same, plain = rmat(8, 500, draw(1)), rmat(8, 500, draw(1)), rmat(8, 500, draw(1), shuffle=False)
    assert one.source.tolist() == same.source.tolist()
    degrees = [sorted(np.bincount(g.source, minlength=256).tolist()) for g in (one, plain)]
    assert degrees[0] == degrees[1]
    assert [count_cliques(orient(clean(g).edges), 3) for g in (one, plain)] == [
        count_cliques(orient(clean(one).edges), 3)
    ] * 2


def test_edges_fall_into_the_quarters_as_often_as_they_should() -> None:
    got = rmat(12, 200_000, draw(2), shuffle=False)
    for bit in (0, 5, 11):
        quarter = 2 * (got.source >> bit & 1) + (got.target >> bit & 1)
        shares = np.bincount(quarter, minlength=4) / len(got)
        assert shares == pytest.approx([0.57, 0.19, 0.19, 0.05], abs=0.005)  # 4.5 standard deviations


def test_degrees_have_a_heavy_tail_where_a_uniform_graph_has_none() -> None:
    skewed, even = (
        np.bincount(rmat(12, 60_000, draw(4), quarters=quarters).source)
        for quarters in ((0.57, 0.19, 0.19, 0.05), (0.25,) * 4)
    )
    assert skewed.max() > 20 * skewed.mean()
    assert even.max() < 4 * even.mean()


def test_an_empty_graph_is_one() -> None:
    for vertices in (0, 3):
        got = clean(edges([], vertices))
        assert (len(got.edges), got.self_loops, got.duplicates) == (0, 0, 0)
        assert count_cliques(orient(got.edges), 3) == 0
    assert len(rmat(0, 0, draw(1))) == 0


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: rmat(-1, 5, draw(1)), "scale=-1 is outside"),
        (lambda: rmat(3, -5, draw(1)), "edges=-5 is below 0"),
        (lambda: rmat(3, 5, draw(1), quarters=(0.5, 0.5, 0.5, 0.5)), "sum to 1"),
        (lambda: rmat(3, 5, draw(1), noise=2), "noise=2 is outside"),
        (lambda: edges([(0, 1), (2, 99)]), "edge 1 has target 99, outside 0..8"),
        (lambda: Edges(np.zeros(2, np.int64), np.zeros(3, np.int64), 5), "two lists of one length"),
        (lambda: count_cliques(orient(edges([(0, 1)])), 1), "size=1 is below 2"),
        (lambda: clean(edges([(0, 1)], 2**40)), "more than 2"),
    ],
    ids=["scale", "edges", "quarters", "noise", "vertex", "shape", "size", "vertices"],
)
def test_what_cannot_be_is_named(call, told) -> None:
    with pytest.raises(ConfigError, match=told):
        call()
