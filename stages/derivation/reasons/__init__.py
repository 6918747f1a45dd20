"""Why derivation drops, ignores or resets something: one typed class a reason."""
