"""The l1 process and its endpoints."""
