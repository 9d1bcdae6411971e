"""How a batch of the service runs: Spark's streaming query, the driver's part, and the servers' tasks.

The only part of the service that imports pyspark. It imports the core (`headgate.service.*`), and the core never imports it.
"""
