"""The commands of the program beside running a node."""
