"""The execution engine over HTTP."""
