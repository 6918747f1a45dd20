"""Yamux, the stream multiplexer."""
