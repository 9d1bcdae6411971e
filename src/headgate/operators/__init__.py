"""Operators: what happens to the rows of a key. Pure functions over arrays; no Spark, no files."""
