"""Unsafe blocks: queue, gaps, and blocks that the engine lost."""
