"""The engine core: one state machine composed of the rows of all topics."""
