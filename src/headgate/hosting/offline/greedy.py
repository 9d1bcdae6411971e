# mypy: allow-untyped-defs, allow-untyped-calls
"""IC and MMS compiled: round after round the cheapest (type, server) pair, as many queries of the type as fit.

IC's price of a pair is the traffic that it adds (MICE-14); MMS's is the server's traffic after it (MICE-15). Ties: the
type of more queries first, then the lower type, then the less filled server, then the lower server (MICE-E9).

For one server the best type is the best of three, so that no pair is looked at twice:
(a) the first type left in the order of w(S_t): adds at most that;
(b) for a source s that the server has, the first type left that reads s: adds at most w(S_t) - w(s). One heap per server,
    keyed by its sources, brought up to date when its top is out of date: types only go away, so keys only grow;
(c) types of which the server has two sources or more, found when the second arrives. A second heap per server.
Servers lie in a tree of winners by their best; one whose best type is gone is asked again when it comes to the top.
"""

from __future__ import annotations

import numpy as np

from headgate.compiled import compiled


@compiled
def sift_down(key, tie, item, base, size):
    """Restore a heap whose top was replaced."""
    i = 0
    while True:
        least = i
        for child in (2 * i + 1, 2 * i + 2):
            if child < size and (
                key[base + child] < key[base + least]
                or (key[base + child] == key[base + least] and tie[base + child] < tie[base + least])
            ):
                least = child
        if least == i:
            return
        a, b = base + i, base + least
        key[a], key[b] = key[b], key[a]
        tie[a], tie[b] = tie[b], tie[a]
        item[a], item[b] = item[b], item[a]
        i = least


@compiled
def sift_up(key, tie, item, base, i):
    """Restore a heap whose last entry is new."""
    while i > 0:
        up = (i - 1) // 2
        a, b = base + i, base + up
        if key[a] > key[b] or (key[a] == key[b] and tie[a] >= tie[b]):
            return
        key[a], key[b] = key[b], key[a]
        tie[a], tie[b] = tie[b], tie[a]
        item[a], item[b] = item[b], item[a]
        i = up


@compiled
def first_left(order, at, end, left):
    """Return the first position from ``at`` whose type has queries left, or ``end``."""
    while at < end and left[order[at]] == 0:
        at += 1
    return at


@compiled
def better(price, tie, fill, a, b):
    """Whether server a's best pair comes before server b's."""
    if price[a] != price[b]:
        return price[a] < price[b]
    if tie[a] != tie[b]:
        return tie[a] < tie[b]
    if fill[a] != fill[b]:
        return fill[a] < fill[b]
    return a < b


@compiled
def climb(tree, leaves, price, tie, fill, j):
    """Bring the tree of winners up to date for one server."""
    node = (leaves + j) >> 1
    while node > 0:
        a, b = tree[2 * node], tree[2 * node + 1]
        tree[node] = a if better(price, tie, fill, a, b) else b
        node >>= 1


@compiled
def assign(rate, start, source, count, cost, rooms, size, by_weight, weight, rank, reads, read_start, total):
    """Return (type, server, number) of every step. ``total`` adds the server's traffic to the price: MMS.

    ``by_weight`` orders types by (w(S_t), -n_t, t), ``rank`` by (-n_t, t); ``reads[read_start[s]:]`` are the types of a
    source in the first order.
    """
    k, m, kinds = rooms.shape[0], rate.shape[0], count.shape[0]
    left, room = count.copy(), rooms.copy()
    traffic, load = np.zeros(k), np.zeros(k)
    has = np.zeros((k, (m + 7) // 8), np.uint8)
    next_of, next_any = read_start[:-1].copy(), 0
    ends = read_start[1:].copy()
    leaves = 1
    while leaves < k:
        leaves *= 2
    price, tie, fill = np.full(leaves, np.inf), np.full(leaves, kinds, np.int64), np.full(leaves, np.inf)
    pick = np.full(leaves, -1, np.int64)
    tree = np.zeros(2 * leaves, np.int64)
    # Heaps (b) and (c) of each server: key, tie, item.
    b_key, b_tie, b_item = (
        [np.empty(8) for _ in range(k)],
        [np.empty(8, np.int64) for _ in range(k)],
        [np.empty(8, np.int64) for _ in range(k)],
    )
    c_key, c_tie, c_item = (
        [np.empty(8) for _ in range(k)],
        [np.empty(8, np.int64) for _ in range(k)],
        [np.empty(8, np.int64) for _ in range(k)],
    )
    b_size, c_size = np.zeros(k, np.int64), np.zeros(k, np.int64)
    for j in range(leaves):
        tree[leaves + j] = j
        if j < k and room[j] > 0:
            fill[j] = 0.0
            price[j] = -np.inf  # not asked yet
    for node in range(leaves - 1, 0, -1):
        a, b = tree[2 * node], tree[2 * node + 1]
        tree[node] = a if better(price, tie, fill, a, b) else b
    out_type, out_server, out_number = (
        np.empty(kinds + k, np.int64),
        np.empty(kinds + k, np.int64),
        np.empty(kinds + k, np.int64),
    )
    steps, open_types = 0, kinds
    while open_types > 0:
        j = tree[1]
        if price[j] == np.inf:
            break  # nothing fits anywhere
        t = pick[j]
        if t < 0 or left[t] == 0 or cost[t] > room[j]:
            # Ask server j again.
            best, best_tie, chosen = np.inf, kinds, -1
            next_any = first_left(by_weight, next_any, kinds, left)
            at = next_any
            while at < kinds and (left[by_weight[at]] == 0 or cost[by_weight[at]] > room[j]):
                at += 1
            if at < kinds:
                chosen = by_weight[at]
                best, best_tie = weight[chosen], rank[chosen]
            while b_size[j] > 0:
                s = b_item[j][0]
                next_of[s] = first_left(reads, next_of[s], ends[s], left)
                at = next_of[s]
                while at < ends[s] and (left[reads[at]] == 0 or cost[reads[at]] > room[j]):
                    at += 1
                if at == ends[s]:
                    b_size[j] -= 1
                    last = b_size[j]
                    b_key[j][0], b_tie[j][0], b_item[j][0] = b_key[j][last], b_tie[j][last], b_item[j][last]
                    sift_down(b_key[j], b_tie[j], b_item[j], 0, last)
                    continue
                kind = reads[at]
                now, now_tie = weight[kind] - rate[s], rank[kind]
                if now != b_key[j][0] or now_tie != b_tie[j][0]:
                    b_key[j][0], b_tie[j][0] = now, now_tie
                    sift_down(b_key[j], b_tie[j], b_item[j], 0, b_size[j])
                    continue
                if now < best or (now == best and now_tie < best_tie):
                    best, best_tie, chosen = now, now_tie, kind
                break
            while c_size[j] > 0:
                kind = c_item[j][0]
                if left[kind] == 0 or cost[kind] > room[j]:
                    c_size[j] -= 1
                    last = c_size[j]
                    c_key[j][0], c_tie[j][0], c_item[j][0] = c_key[j][last], c_tie[j][last], c_item[j][last]
                    sift_down(c_key[j], c_tie[j], c_item[j], 0, last)
                    continue
                if c_key[j][0] < best or (c_key[j][0] == best and c_tie[j][0] < best_tie):
                    best, best_tie, chosen = c_key[j][0], c_tie[j][0], kind
                break
            pick[j] = chosen
            price[j] = np.inf if chosen < 0 else best + (traffic[j] if total else 0.0)
            tie[j] = best_tie
            climb(tree, leaves, price, tie, fill, j)
            continue
        number = min(left[t], np.int64(room[j] / cost[t] * (1 + 1e-12)))
        if steps == out_type.shape[0]:
            out_type = np.append(out_type, np.empty_like(out_type))
            out_server = np.append(out_server, np.empty_like(out_server))
            out_number = np.append(out_number, np.empty_like(out_number))
        out_type[steps], out_server[steps], out_number[steps] = t, j, number
        steps += 1
        left[t] -= number
        open_types -= left[t] == 0
        room[j] -= number * cost[t]
        load[j] += number * cost[t]
        fill[j] = load[j] / size[j]
        for i in range(start[t], start[t + 1]):
            s = source[i]
            if has[j, s >> 3] >> (s & 7) & 1:
                continue
            has[j, s >> 3] |= np.uint8(1 << (s & 7))
            traffic[j] += rate[s]
            if room[j] <= 0:
                continue
            if b_size[j] == b_key[j].shape[0]:
                b_key[j] = np.append(b_key[j], np.empty_like(b_key[j]))
                b_tie[j] = np.append(b_tie[j], np.empty_like(b_tie[j]))
                b_item[j] = np.append(b_item[j], np.empty_like(b_item[j]))
            at = b_size[j]
            b_key[j][at], b_tie[j][at], b_item[j][at] = -np.inf, -1, s  # asked when it comes to the top
            b_size[j] += 1
            sift_up(b_key[j], b_tie[j], b_item[j], 0, at)
            keep = next_of[s]
            for r in range(next_of[s], ends[s]):
                kind = reads[r]
                if left[kind] == 0:
                    continue
                reads[keep] = kind
                keep += 1
                missing, held = 0.0, 0
                for x in range(start[kind], start[kind + 1]):
                    if has[j, source[x] >> 3] >> (source[x] & 7) & 1:
                        held += 1
                    else:
                        missing += rate[source[x]]
                if held > 1:
                    if c_size[j] == c_key[j].shape[0]:
                        c_key[j] = np.append(c_key[j], np.empty_like(c_key[j]))
                        c_tie[j] = np.append(c_tie[j], np.empty_like(c_tie[j]))
                        c_item[j] = np.append(c_item[j], np.empty_like(c_item[j]))
                    c_key[j][c_size[j]], c_tie[j][c_size[j]], c_item[j][c_size[j]] = missing, rank[kind], kind
                    c_size[j] += 1
                    sift_up(c_key[j], c_tie[j], c_item[j], 0, c_size[j] - 1)
            ends[s] = keep
        if room[j] <= 0:
            price[j], pick[j] = np.inf, -1
            b_size[j], c_size[j] = 0, 0
            b_key[j], b_tie[j], b_item[j] = np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64)
            c_key[j], c_tie[j], c_item[j] = np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64)
        else:
            price[j], pick[j] = -np.inf, -1  # its own keys fell: ask it again at once
        climb(tree, leaves, price, tie, fill, j)
    return out_type[:steps], out_server[:steps], out_number[:steps], left
