"""Unsafe blocks on the wire: SSZ, signature, validation."""
