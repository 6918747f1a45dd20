"""The state machines of the engine process, each of one subject; `core` composes them."""
