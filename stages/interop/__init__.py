"""Verifies the messages between the chains of a dependency set, second by second: rounds, decisions, labels."""
