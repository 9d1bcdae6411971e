"""A stage without an engine: the steps of a batch, the work of a channel, and what comes of them."""
