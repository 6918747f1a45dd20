"""A chain of executed blocks in memory, its transaction pool, and the eth_* methods over them: what the embedded L1
and the embedded L2 engine share."""
