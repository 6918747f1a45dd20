"""The state machines of the engine process, one subject each; `core` composes them."""
