"""The node as a supervisor across chains manages it."""
