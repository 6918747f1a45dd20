"""The instructions, one function `operation(frame, stack, argument)` each, named as in the execution specs (EELS).

`table` assigns opcodes, static gas and stack items."""
