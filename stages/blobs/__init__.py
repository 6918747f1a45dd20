"""Fetches, verifies and decodes blobs."""
