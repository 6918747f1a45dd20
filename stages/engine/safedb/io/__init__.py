"""The safe head database in a file."""
