"""The embedded development execution engine: OP Stack block execution behind the Engine API. Not for production."""
