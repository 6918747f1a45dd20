"""The supervisor: starts, watches, restarts and stops the processes of a node."""
