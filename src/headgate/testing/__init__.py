"""For tests of headgate and of what is built on it: builders of values (`builders`), Hypothesis strategies
(`strategies`, needs hypothesis). Public.
"""
