"""The Engine API: calls, answers and what they mean."""
