"""Gossipsub v1.1 and v1.2 as a synchronous core."""
