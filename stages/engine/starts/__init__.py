"""The search for heads and a pipeline start."""
