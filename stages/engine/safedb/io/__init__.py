"""The file of the safe head database."""
