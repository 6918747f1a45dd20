"""Deriving ahead [ENG40]: the two ends of the channel of derived attributes, and what both rely on."""
