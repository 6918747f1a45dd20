"""Why derivation drops, ignores or resets something: one typed class per reason."""
