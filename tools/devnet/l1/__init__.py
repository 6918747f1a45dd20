"""The embedded L1 for development: a block per slot, blob transactions with sidecars, reorgs on request."""
