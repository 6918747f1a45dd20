"""The host: connections, streams, dialling, identify and ping."""
