"""Error codes of JSON-RPC 2.0 and of go-ethereum's server [RPC12 to RPC18]."""

from typing import Final

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
SERVER_ERROR: Final = -32000
"""Every error that a method answers with, unless it has a code of its own."""

TIMEOUT: Final = -32002
RESPONSE_TOO_LARGE: Final = -32003
