"""The file of the node's network key."""
