"""The derivation process around the deriver: requests, prefetch, log."""
