"""Decides which peers may connect and which connections are trimmed, and limits rates."""
