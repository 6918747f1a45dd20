"""Damaged and hostile bytes for every parser of what comes from L1, and for `rollup-node decode`."""
