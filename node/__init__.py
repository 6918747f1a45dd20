"""Runs the node: command line, options, supervisor, process runtime, operator commands."""
