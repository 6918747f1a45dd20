"""The deriver and its stages, from L1 blocks to payload attributes, without I/O."""
