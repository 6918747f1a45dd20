"""The checks of a node's start and of `rollup-node check`: each returns findings with codes."""
