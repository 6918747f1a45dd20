"""What services see of the host."""
