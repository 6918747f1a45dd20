"""Memory shared by processes: sealed memfds, the arena for large payloads, and the liveness table."""
