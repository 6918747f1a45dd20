"""Follows the L1 heads, and fetches, verifies and filters L1 blocks."""
