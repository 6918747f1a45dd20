"""The options of the node: one table, and the code that reads command line, environment and file."""
