"""The race: a node's catch-up over a prepared course of L1 blocks and blobs, with an engine that takes no time."""
