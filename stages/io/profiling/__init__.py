"""Profiles of a running process [LIF16 to LIF20]."""
