"""A whole rollup on one machine."""
