"""Manages the set of connected peers."""
