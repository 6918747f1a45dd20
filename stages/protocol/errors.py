"""The three severities of errors in a stage. The runtime acts by the base class; any other exception is a bug."""

from enum import Enum
from typing import Final

import msgspec


class StageError(Exception):
    """Base of the three below, for the runtime to catch; `code` is the code of the condition, if there is one."""

    def __init__(self, text: object = "", code: Enum | None = None) -> None:
        super().__init__(*(() if text == "" else (text,)))
        self.code = code


class TemporaryError(StageError):
    """An endpoint does not answer: the runtime repeats the step after a back-off."""


class ResetError(StageError):
    """The chain below has changed (L1 reorg, origin mismatch): the stage is reset."""


class CriticalError(StageError):
    """The node cannot go on: the process exits and the supervisor stops all others."""


class HaltError(CriticalError):
    """The node must not go on: L1 requires a protocol version that it does not support."""


class NetworkLeftError(CriticalError):
    """The node must not go on: the next block follows a fork that is not of the OP Stack [LFT4]."""


class RestartError(CriticalError):
    """The node, or one chain of several, starts again with another configuration, which is written."""


class ForkMismatchError(CriticalError):
    """The node must not go on: the execution engine has other forks than this node [ENG13]."""


DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that it cannot decode.

UnicodeDecodeError comes from texts and unknown keys with invalid UTF-8, RecursionError from deep nesting."""


PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
SERVER_ERROR: Final = -32000
"""The code of every error of a method that has no other code."""

TIMEOUT: Final = -32002
RESPONSE_TOO_LARGE: Final = -32003
