"""The live driver: a keyed stream on Spark under headgate's routing."""

from headgate.spark.versions import check_spark

check_spark()  # before any other module asks an older pyspark for what it does not have
