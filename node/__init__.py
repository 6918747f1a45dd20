"""Runs it: command line, options, supervisor, process runtime, operator commands."""
