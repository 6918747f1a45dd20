"""Which peers are dialled, accepted and trimmed, and when a dial is repeated."""
