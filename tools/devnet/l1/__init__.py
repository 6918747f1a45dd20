"""The embedded development L1: blocks by slots, blob transactions with their sidecars, reorganisations on demand."""
