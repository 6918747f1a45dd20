"""Derives payload attributes from L1 data."""
