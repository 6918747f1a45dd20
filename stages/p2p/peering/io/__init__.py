"""Discovery of peers, peer management, and scores over time."""
