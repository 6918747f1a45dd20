"""A light client of Ethereum's beacon chain: proves L1 blocks from one trusted block root [LCP1 to LCP12]."""
