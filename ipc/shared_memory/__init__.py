"""Memory that processes share: sealed memfds, the arena for large payloads, and the liveness table."""
