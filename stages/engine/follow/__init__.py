"""Following the heads of another node."""
