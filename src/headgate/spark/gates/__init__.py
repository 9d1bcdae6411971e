"""Gates on Spark: a bounded step cuts its input into waves, so that only so much of its work exists at a time."""
