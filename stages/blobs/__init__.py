"""Fetches, authenticates and decodes blobs."""
