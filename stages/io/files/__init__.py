"""Files of a node: private ones, archives, SQLite."""
