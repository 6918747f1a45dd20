"""The state transition: running code, applying transactions, executing blocks, and the fork table."""
