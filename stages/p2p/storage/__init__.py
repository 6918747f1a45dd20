"""Data that should survive a restart."""
