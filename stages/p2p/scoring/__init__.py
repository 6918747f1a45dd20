"""Peer scores."""
