"""The p2p process and its services."""
