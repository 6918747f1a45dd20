"""From option values to a node that can run: chain, secrets, endpoint checks, configuration of every process."""
