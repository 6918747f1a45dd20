"""Carries it: bus, wire format and shared memory; knows nothing of rollups."""
