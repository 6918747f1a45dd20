"""The derivation process around the deriver: buffers, prefetch, requests, log."""
