"""Programs for development of the project itself."""
