"""SQLite files and the file of the network key."""
