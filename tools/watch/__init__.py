"""A third opinion on fault games: compares the claims that are posted on L1 with what a node of ours derives."""
