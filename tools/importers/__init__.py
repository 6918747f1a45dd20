"""Writes data files and generated documents of the repository."""
