"""Commands beside running a node: the same processes, put together for one question."""
