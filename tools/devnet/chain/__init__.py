"""Shared by the embedded L1 and the embedded engine: a chain of executed blocks in memory, its transaction pool, and
the eth_* methods."""
