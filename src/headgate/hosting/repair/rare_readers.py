# mypy: allow-untyped-defs
"""Who reads a source that few queries read, so that they can be moved together.

A query is written down when it arrives and when repair looks at it, for each of its sources with at most `FEW` readers. Law:
who is written down does read the source; so all readers are known where as many are written down as there are.
Memory follows the sources.
"""

from __future__ import annotations

from headgate.compiled import bare

FEW = 16


@bare
def met(books, query):
    """Write a hosted query down with its sources of few readers; harmless if it is there already."""
    kind = books.type_of[query]
    for i in range(books.type_start[kind], books.type_start[kind + 1]):
        s = books.type_source[i]
        known = books.known[s]
        if known < books.use[s] <= FEW:
            at = 0
            while at < known and books.readers[s, at] != query:
                at += 1
            if at == known:
                books.readers[s, at] = query
                books.known[s] = known + 1


@bare
def gone(books, query):
    """Strike a query that leaves."""
    kind = books.type_of[query]
    for i in range(books.type_start[kind], books.type_start[kind + 1]):
        s = books.type_source[i]
        last = books.known[s] - 1
        for at in range(last + 1):
            if books.readers[s, at] == query:
                books.readers[s, at] = books.readers[s, last]
                books.known[s] = last
                break


@bare
def together(books, s, server, most, group):
    """Write the readers of a source on a server into ``group``; return how many, or 0 if they are too many or not all known."""
    if books.known[s] != books.use[s]:
        return 0
    number = 0
    for at in range(books.known[s]):
        query = books.readers[s, at]
        if books.server_of[query] == server:
            if number == most:
                return 0
            group[number] = query
            number += 1
    return number
