"""Standing queries in SQL: which SQL is supported, what queries share, and how many queries
run as one (MICE-F1).

A query's text is read and checked (`prepare`) and divided into a *template* and its *constants*:
source names and literals. All queries of a template run as one relational operation over the table
of their constants (`shared`). Equal queries are one *computation*. Functions over values: no clock,
no files, no Spark.

A text is parsed in `dialect` and `parse`, read in `read` (with `union` for UNION ALL and `grouping` for aggregates), and
written anew in `expressions` and `functions`. `wording` is how refusals speak. `like` and `regex` are functions whose time is
bounded, and `distinct` counts different values in a bounded state.
"""
