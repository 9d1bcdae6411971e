# mypy: allow-untyped-defs
"""A tournament tree over servers: its root names the least filled one. Compiled.

``fill`` is load over size, padded with infinity to a power of two. Each node names the least filled
server below it, the lower number if two are equal; the leaves are the servers themselves.
"""

from __future__ import annotations

from headgate.compiled import compiled, inlined


@compiled
def build(tree, fill):
    """Build the whole tree."""
    leaves = fill.shape[0]
    for i in range(leaves):
        tree[leaves + i] = i
    for node in range(leaves - 1, 0, -1):
        left, right = tree[2 * node], tree[2 * node + 1]
        tree[node] = right if fill[right] < fill[left] else left


@inlined
def update(tree, fill, server):
    """Bring the tree up to date after the fill of one server changed."""
    node = (fill.shape[0] + server) >> 1
    while node > 0:
        left, right = tree[2 * node], tree[2 * node + 1]
        tree[node] = right if fill[right] < fill[left] else left
        node >>= 1


@inlined
def least_filled(state):
    """Return the server of least load over size, the lowest number among equals."""
    return state.fill_tree[1]
