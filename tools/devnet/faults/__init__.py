"""Faults of a running local network, and the checks that it stays one chain."""
