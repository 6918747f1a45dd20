"""The heads of the L2 chain: when they may move, whose they follow, and unsafe blocks with their gaps and losses."""
