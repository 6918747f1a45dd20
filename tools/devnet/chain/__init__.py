"""Shared by the embedded L1 and the embedded engine.

A chain of executed blocks in memory, its transaction pool, and the eth_* methods."""
