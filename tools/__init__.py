"""Programs around the node."""
