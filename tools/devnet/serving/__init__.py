"""JSON-RPC serving for the embedded programs."""
