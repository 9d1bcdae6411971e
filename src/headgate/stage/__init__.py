"""A stage, independent of any engine: the steps of a batch, the work of a channel, and the results."""
