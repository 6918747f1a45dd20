"""From option values to a node that can start: plan, secrets, state files, checks."""
