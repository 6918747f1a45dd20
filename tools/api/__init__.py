"""The library: what `import rollup_node` offers, with the node's own stages in the caller's process."""
