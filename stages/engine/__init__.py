"""Drives the execution engine, sequences, finalizes."""
