"""Yamux, the stream multiplexer, and the upgrade of a connection."""
