"""The live driver: a keyed stream on Spark under headgate's routing."""
