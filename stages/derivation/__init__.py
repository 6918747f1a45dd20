"""Derivation: from L1 blocks to payload attributes, as a pure deriver and the process around it."""
