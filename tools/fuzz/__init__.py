"""Fuzzing of every parser of L1 data and of `rollup-node decode`."""
