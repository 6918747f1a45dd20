"""Signing of blocks by a remote signer, the blocks that wait for it, and the blocks that were signed."""
