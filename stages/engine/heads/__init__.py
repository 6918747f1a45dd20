"""The heads of the L2 chain and when they may move."""
