"""The status of the node: heads, state, progress, readiness and warnings, made from what the processes publish."""
