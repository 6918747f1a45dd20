"""The UDP socket and the database of discovery."""
