"""Why the execution engine does not do what is asked, as a code."""

from rollup_node.stages.io.http.endpoint_errors import EndpointError, NoAnswerError, tls_code
from rollup_node.stages.io.http.jsonrpc import RpcFailure
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import METHOD_NOT_FOUND

TOKEN_CODES = frozenset({Code.ENGINE_AUTH, Code.ENGINE_CLOCK})

_TOKEN_WORDS = ("jwt", "token", "unauthorized", "authenticat")
_TIME_WORDS = ("stale", "expired", "future token", "iat ", "issued-at", "issued at", "used before issued")
_HOST_WORDS = ("invalid host", "host header", "host not allowed", "virtual host")


def code_of(failure: EndpointError | RpcFailure) -> Code:
    """Return the code for a call that failed.

    Our host name, the time of our token, our secret, TLS, an error of the engine, no answer of an engine that is up, or
    none of these: it cannot be reached."""
    words, status = str(failure).lower(), getattr(failure, "status", None)
    if status in (400, 403) and any(item in words for item in _HOST_WORDS):
        return Code.ENGINE_VHOST
    is_answer = isinstance(failure, RpcFailure)
    rejected = any(item in words for item in _TOKEN_WORDS) if is_answer else status in (401, 403)
    if rejected:
        return Code.ENGINE_CLOCK if any(item in words for item in _TIME_WORDS) else Code.ENGINE_AUTH
    if isinstance(failure, RpcFailure):
        return (
            Code.ENGINE_PUBLIC_PORT if failure.code == METHOD_NOT_FOUND and "engine_" in words else Code.ENGINE_ANSWER
        )
    if isinstance(failure, NoAnswerError):
        return Code.ENGINE_SLOW
    return tls_code(str(failure)) or Code.ENGINE_UNREACHABLE
