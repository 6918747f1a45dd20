"""Derives payload attributes from L1 blocks: a pure deriver and the process around it."""
