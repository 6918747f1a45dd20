"""What the shells of all stages share: periodic tasks, loggers, metrics, the JSON-RPC client."""
