"""The blobs process and its beacon endpoints."""
