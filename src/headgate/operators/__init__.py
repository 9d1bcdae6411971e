"""Operators: what is done with the rows of a key. Pure functions over arrays; no Spark, no files."""
