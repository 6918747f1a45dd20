"""Checks of what a node needs, by its start and by `rollup-node check`: each gives findings with codes."""
