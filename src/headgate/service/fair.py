"""Who gets how many rows of a batch: a fair share of what waits, by tenant."""

from __future__ import annotations

from collections.abc import Mapping


def fair_shares(
    waiting: Mapping[str, int],
    bound: float,
    *,
    weights: Mapping[str, float] | None = None,
    cost: Mapping[str, float] | None = None,
) -> dict[str, int]:
    """How many of its waiting rows each tenant gets: max-min by weight.

    A row of a tenant costs `cost` (1 if it is not named), and all rows together cost at most `bound`. Nobody gets more
    than it has waiting. Whoever does not get all its rows gets at least as much, for its weight (1 if it is not
    named), as anybody else, but for one row. What is left over after that goes to the tenants in their given order, a
    row each; the first tenant gets a row though it costs more than the bound, so that a batch is never empty.

    >>> fair_shares({"ann": 1000, "bob": 10, "cay": 300}, 310)
    {'ann': 150, 'bob': 10, 'cay': 150}
    >>> fair_shares({"ann": 1000, "bob": 1000}, 300, weights={"ann": 0.5})
    {'ann': 100, 'bob': 200}
    """
    weight = {name: (weights or {}).get(name, 1.0) for name in waiting}
    price = {name: (cost or {}).get(name, 1.0) for name in waiting}
    given = dict.fromkeys(waiting, 0)
    left, heavy = float(bound), sum(weight[name] for name in waiting)
    order = sorted(waiting, key=lambda name: waiting[name] * price[name] / weight[name])
    for at, name in enumerate(order):
        if waiting[name] * price[name] * heavy > left * weight[name]:
            level = left / heavy
            for other in order[at:]:
                given[other] = min(waiting[other], int(level * weight[other] / price[other]))
                left -= given[other] * price[other]
            break
        given[name] = waiting[name]
        left -= given[name] * price[name]
        heavy -= weight[name]
    for name, rows in waiting.items():
        if given[name] < rows and price[name] <= left:
            given[name] += 1
            left -= price[name]
    first = next((name for name, rows in waiting.items() if rows), None)
    if first is not None and not any(given.values()):
        given[first] = 1
    return given
