"""The commands that read a chain without running a node: listings, replays, history, and what a node does."""
