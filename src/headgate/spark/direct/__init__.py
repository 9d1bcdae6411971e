"""Direct streams on Spark: how they are read and written, the query that runs, and its Spark jobs."""
