"""The HTTP and JSON-RPC server of the embedded programs."""
