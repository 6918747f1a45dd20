"""The embedded execution engine for development: OP Stack block execution behind the Engine API."""
