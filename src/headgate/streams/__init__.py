"""Direct streams: the loop, the steps before a key, and the map task. This package knows no engine."""
