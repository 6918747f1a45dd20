"""Error codes of JSON-RPC 2.0 and of go-ethereum's server [RPC12 to RPC18]."""

from typing import Final

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
SERVER_ERROR: Final = -32000
"""The code of every error of a method that has no other code."""

TIMEOUT: Final = -32002
RESPONSE_TOO_LARGE: Final = -32003
