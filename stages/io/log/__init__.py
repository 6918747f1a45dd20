"""Log lines."""
