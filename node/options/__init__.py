"""The options of the node: one table, and how command line, environment and file are read by it."""
