"""Checks of all that a node needs, before it is started: `rollup-node check` [LIF24]."""
