"""What msgspec raises for bytes that it cannot decode."""

import msgspec

DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""UnicodeDecodeError comes from texts and unknown keys with invalid UTF-8, RecursionError from deep nesting."""
