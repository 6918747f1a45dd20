"""Which peers may connect, which connections are trimmed, and how often something may be tried."""
