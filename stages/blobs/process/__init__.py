"""The blobs process, its beacon endpoints and the verifier that shares compute tasks."""
