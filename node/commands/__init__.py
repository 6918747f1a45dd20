"""The program's commands besides running a node."""
