"""How the set of connected peers is managed."""
