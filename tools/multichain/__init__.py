"""A local network of several L2 chains on one L1: supernodes, and messages between the chains."""
