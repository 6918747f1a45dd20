"""The pure machines of the engine process."""
