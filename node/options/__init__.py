"""The options of the node: one table, and how a command line, an environment and a file are read by it."""
