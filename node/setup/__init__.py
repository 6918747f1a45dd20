"""From option values to a node that can be started: plan, secrets, state files, checks."""
