"""Discovery of peers, port mapping, peer management, and scores over time."""
