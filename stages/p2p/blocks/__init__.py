"""Gossiped blocks: encoding, signature, validation."""
