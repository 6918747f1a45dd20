"""Derived attributes on their way into the execution engine."""
