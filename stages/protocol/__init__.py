"""What all stages know of the rollup protocol."""
