# mypy: allow-untyped-defs, allow-untyped-calls
"""IC and MMS: round after round, the cheapest (query type, server) pair takes as many queries as fit. Compiled.

IC's price of a pair is the traffic that it adds (MICE-14); MMS's is the server's traffic after it (MICE-15).
Ties go to the type with more queries, then the lower type, the less filled server, the lower server (MICE-E9).

The best type for one server is the best of three, so that no pair is looked at twice:
(a) the first type left in the order of w(S_t), which adds at most w(S_t);
(b) for a source s that the server receives, the first type left that reads s, which adds at most
    w(S_t) - w(s). Each server has a heap of its sources by that key. A key is updated only when it comes to the
    top: types are only used up, so keys only grow;
(c) types of which the server receives two sources or more, found when the second one is added. They are in a
    second heap of each server.
The servers are in a tournament tree by their best pair. A server whose best type is used up is asked again
when it comes to the top. ``t`` stands for a query type, ``s`` for a source and ``j`` for a server.
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
def update_tree(tree, leaves, price, tie, fill, j):
    """Bring the tournament tree up to date for one server."""
    node = (leaves + j) >> 1
    while node > 0:
        a, b = tree[2 * node], tree[2 * node + 1]
        tree[node] = a if better(price, tie, fill, a, b) else b
        node >>= 1


@compiled
def cheapest_pairs(
    rate, start, source, count, cost, limits, size, by_weight, weight, rank, reads, read_start, total
):
    """Return the query type, server and number of queries of every step, and the queries of each type left over.

    ``total`` adds the server's traffic to the price, for MMS. ``by_weight`` orders types by (w(S_t), -n_t, t),
    ``rank`` by (-n_t, t); ``reads[read_start[s]:read_start[s + 1]]`` are the types that read s in the first order.
    """
    k, m, type_count = limits.shape[0], rate.shape[0], count.shape[0]
    left, room = count.copy(), limits.copy()
    traffic, load = np.zeros(k), np.zeros(k)
    has = np.zeros((k, (m + 7) // 8), np.uint8)
    next_of, next_any = read_start[:-1].copy(), 0
    ends = read_start[1:].copy()
    leaves = 1
    while leaves < k:
        leaves *= 2
    price, tie, fill = np.full(leaves, np.inf), np.full(leaves, type_count, np.int64), np.full(leaves, np.inf)
    pick = np.full(leaves, -1, np.int64)
    tree = np.zeros(2 * leaves, np.int64)
    # The heaps of each server, (b) of sources and (c) of types: key, tie, item.
    source_key, source_tie, source_item = (
        [np.empty(8) for _ in range(k)],
        [np.empty(8, np.int64) for _ in range(k)],
        [np.empty(8, np.int64) for _ in range(k)],
    )
    type_key, type_tie, type_item = (
        [np.empty(8) for _ in range(k)],
        [np.empty(8, np.int64) for _ in range(k)],
        [np.empty(8, np.int64) for _ in range(k)],
    )
    source_size, type_size = np.zeros(k, np.int64), np.zeros(k, np.int64)
    for j in range(leaves):
        tree[leaves + j] = j
        if j < k and room[j] > 0:
            fill[j] = 0.0
            price[j] = -np.inf  # not asked yet: comes first
    for node in range(leaves - 1, 0, -1):
        a, b = tree[2 * node], tree[2 * node + 1]
        tree[node] = a if better(price, tie, fill, a, b) else b
    out_type, out_server, out_number = (
        np.empty(type_count + k, np.int64),
        np.empty(type_count + k, np.int64),
        np.empty(type_count + k, np.int64),
    )
    steps, open_types = 0, type_count
    while open_types > 0:
        j = tree[1]
        if price[j] == np.inf:
            break  # no type that is left fits any server
        t = pick[j]
        if t < 0 or left[t] == 0 or cost[t] > room[j]:
            # Ask server j again.
            best, best_tie, chosen = np.inf, type_count, -1
            next_any = first_left(by_weight, next_any, type_count, left)
            at = next_any
            while at < type_count and (left[by_weight[at]] == 0 or cost[by_weight[at]] > room[j]):
                at += 1
            if at < type_count:
                chosen = by_weight[at]
                best, best_tie = weight[chosen], rank[chosen]
            while source_size[j] > 0:
                s = source_item[j][0]
                next_of[s] = first_left(reads, next_of[s], ends[s], left)
                at = next_of[s]
                while at < ends[s] and (left[reads[at]] == 0 or cost[reads[at]] > room[j]):
                    at += 1
                if at == ends[s]:
                    source_size[j] -= 1
                    last = source_size[j]
                    source_key[j][0], source_tie[j][0], source_item[j][0] = (
                        source_key[j][last],
                        source_tie[j][last],
                        source_item[j][last],
                    )
                    sift_down(source_key[j], source_tie[j], source_item[j], 0, last)
                    continue
                candidate = reads[at]
                now, now_tie = weight[candidate] - rate[s], rank[candidate]
                if now != source_key[j][0] or now_tie != source_tie[j][0]:
                    source_key[j][0], source_tie[j][0] = now, now_tie
                    sift_down(source_key[j], source_tie[j], source_item[j], 0, source_size[j])
                    continue
                if now < best or (now == best and now_tie < best_tie):
                    best, best_tie, chosen = now, now_tie, candidate
                break
            while type_size[j] > 0:
                candidate = type_item[j][0]
                if left[candidate] == 0 or cost[candidate] > room[j]:
                    type_size[j] -= 1
                    last = type_size[j]
                    type_key[j][0], type_tie[j][0], type_item[j][0] = (
                        type_key[j][last],
                        type_tie[j][last],
                        type_item[j][last],
                    )
                    sift_down(type_key[j], type_tie[j], type_item[j], 0, last)
                    continue
                if type_key[j][0] < best or (type_key[j][0] == best and type_tie[j][0] < best_tie):
                    best, best_tie, chosen = type_key[j][0], type_tie[j][0], candidate
                break
            pick[j] = chosen
            price[j] = np.inf if chosen < 0 else best + (traffic[j] if total else 0.0)
            tie[j] = best_tie
            update_tree(tree, leaves, price, tie, fill, j)
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
            if source_size[j] == source_key[j].shape[0]:
                source_key[j] = np.append(source_key[j], np.empty_like(source_key[j]))
                source_tie[j] = np.append(source_tie[j], np.empty_like(source_tie[j]))
                source_item[j] = np.append(source_item[j], np.empty_like(source_item[j]))
            at = source_size[j]
            source_key[j][at], source_tie[j][at], source_item[j][at] = (
                -np.inf,
                -1,
                s,
            )  # computed when it comes to the top
            source_size[j] += 1
            sift_up(source_key[j], source_tie[j], source_item[j], 0, at)
            keep = next_of[s]
            for r in range(next_of[s], ends[s]):
                candidate = reads[r]
                if left[candidate] == 0:
                    continue
                reads[keep] = candidate
                keep += 1
                missing, held = 0.0, 0
                for x in range(start[candidate], start[candidate + 1]):
                    if has[j, source[x] >> 3] >> (source[x] & 7) & 1:
                        held += 1
                    else:
                        missing += rate[source[x]]
                if held > 1:
                    if type_size[j] == type_key[j].shape[0]:
                        type_key[j] = np.append(type_key[j], np.empty_like(type_key[j]))
                        type_tie[j] = np.append(type_tie[j], np.empty_like(type_tie[j]))
                        type_item[j] = np.append(type_item[j], np.empty_like(type_item[j]))
                    type_key[j][type_size[j]], type_tie[j][type_size[j]], type_item[j][type_size[j]] = (
                        missing,
                        rank[candidate],
                        candidate,
                    )
                    type_size[j] += 1
                    sift_up(type_key[j], type_tie[j], type_item[j], 0, type_size[j] - 1)
            ends[s] = keep
        if room[j] <= 0:
            price[j], pick[j] = np.inf, -1
            source_size[j], type_size[j] = 0, 0
            source_key[j], source_tie[j], source_item[j] = (
                np.empty(0),
                np.empty(0, np.int64),
                np.empty(0, np.int64),
            )
            type_key[j], type_tie[j], type_item[j] = np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64)
        else:
            price[j], pick[j] = -np.inf, -1  # its keys fell, so it is asked again at once
        update_tree(tree, leaves, price, tie, fill, j)
    return out_type[:steps], out_server[:steps], out_number[:steps], left
