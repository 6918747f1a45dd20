"""Noise, the security transport of libp2p."""
