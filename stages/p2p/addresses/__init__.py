"""IP addresses and multiaddrs."""
