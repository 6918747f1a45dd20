"""Why derivation dropped something: every reason, with its rule."""
