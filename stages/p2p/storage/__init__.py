"""SQLite files for data that should survive a restart."""
