"""Standing queries in SQL: what is taken, what queries have in common, and how many of them run as one (MICE-F1).

A query's text is read and checked (`prepare`), and falls into a *template* and its *constants*: source names and
literals. All queries of a template run as one relational operation over the table of their constants (`shared`); equal
queries are one *computation*. Functions over values: no clock, no files, no Spark.
"""
