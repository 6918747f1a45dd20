"""The instructions, one function each: `operation(frame, stack, argument)`. `table` gives them opcodes and gas."""
