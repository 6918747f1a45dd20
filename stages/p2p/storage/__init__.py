"""SQLite files for what should survive a restart."""
