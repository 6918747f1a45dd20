"""Follows the L1 heads; fetches, verifies and filters L1 blocks."""
