"""Gossipsub v1.1 with IDONTWANT of v1.2, as a synchronous core."""
