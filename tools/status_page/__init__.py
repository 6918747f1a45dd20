"""The status page without a node: crafted states, a server that shows them, and their pictures."""
