# mypy: allow-untyped-defs
"""Lists of the queries that read a rare source, so that they can be moved together. Compiled.

A query is listed when it arrives and when repair examines it, under each of its sources that has at most
`RARE` readers. Law: whoever is listed under a source reads it. So the list is complete exactly if it is
as long as the number of readers. Memory grows with the number of sources.
"""

from __future__ import annotations

from headgate.compiled import bare
from headgate.hosting.placement.state import RARE


@bare
def remember_reader(state, query):
    """List a hosted query under its rare sources; this does nothing where it is listed already."""
    query_type = state.type_of[query]
    for i in range(state.type_start[query_type], state.type_start[query_type + 1]):
        s = state.type_source[i]
        known = state.rare_known[s]
        if known < state.readers[s] <= RARE:
            at = 0
            while at < known and state.rare_readers[s, at] != query:
                at += 1
            if at == known:
                state.rare_readers[s, at] = query
                state.rare_known[s] = known + 1


@bare
def forget_reader(state, query):
    """Delete a query that leaves from the lists."""
    query_type = state.type_of[query]
    for i in range(state.type_start[query_type], state.type_start[query_type + 1]):
        s = state.type_source[i]
        last = state.rare_known[s] - 1
        for at in range(last + 1):
            if state.rare_readers[s, at] == query:
                state.rare_readers[s, at] = state.rare_readers[s, last]
                state.rare_known[s] = last
                break


@bare
def readers_on_server(state, s, server, most, group):
    """Write the readers of a source on a server into ``group`` and return their number.

    Return 0 if there are more than ``most``, or if the list of the source's readers is not complete.
    """
    if state.rare_known[s] != state.readers[s]:
        return 0
    number = 0
    for at in range(state.rare_known[s]):
        query = state.rare_readers[s, at]
        if state.server_of[query] == server:
            if number == most:
                return 0
            group[number] = query
            number += 1
    return number
