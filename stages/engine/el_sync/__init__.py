"""EL sync: the execution engine fetches the chain by itself."""
