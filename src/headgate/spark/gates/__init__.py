"""Gates on Spark: a bounded step cuts its input into waves, which bounds how
much of its work exists at a time.
"""
