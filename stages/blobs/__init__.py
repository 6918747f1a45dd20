"""Fetches, verifies and decodes blobs, and reads the inputs of Alt-DA commitments."""
