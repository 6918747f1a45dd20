"""Noise, libp2p's secure channel."""
