"""The errors of endpoints; their texts show host and port alone, for the rest of a URL may hold credentials."""

import os
import ssl
from typing import Any

from yarl import URL

from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.texts import one_line

TOO_MANY_REQUESTS = 429
NO_TLS = "the port does not speak TLS"
BAD_CERTIFICATE = "certificate not accepted"

_TLS_WANTED = ("http request to an https server", "plain http request was sent to https")
_PLAIN_ANSWERS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG")
"""OpenSSL's reasons when the first bytes of the server are no TLS record; which one depends on its version."""


LIMIT_EXCEEDED = (-32005, TOO_MANY_REQUESTS)
"""JSON-RPC codes of a provider's rate limit: that of EIP-1474, and the HTTP status in its place."""
_LIMITS = ("rate limit", "too many requests", "request limit", "limit exceeded", "compute units", "capacity")
"""Words of providers that answer with a JSON-RPC error instead of HTTP status 429."""


class RpcFailure(Exception):
    """The server answered with an error object. `message` is one line of at most MAX_ERROR_TEXT characters."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        self.code = code
        self.message = one_line(message)
        self.data = data
        super().__init__(f"error {code}: {self.message}")


class EndpointError(Exception):
    """The endpoint does not answer in time, or answers something else than JSON-RPC.

    `status` is the HTTP status, if there was one; `retry_after` are the seconds of its Retry-After header."""

    def __init__(self, endpoint: str, text: str, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(f"{endpoint}: {one_line(text)}")
        self.endpoint, self.status, self.retry_after = endpoint, status, retry_after


class NoAnswerError(EndpointError):
    """The endpoint was reached, and has not answered within `seconds`."""

    def __init__(self, endpoint: str, seconds: float) -> None:
        super().__init__(endpoint, f"no answer within {seconds:g} s")


class AnswerTooLargeError(EndpointError):
    """The answer is longer than the limit of its method."""


class MalformedAnswerError(EndpointError):
    """The answer is not JSON-RPC, or not one to the request."""


def is_throttled(error: Exception) -> bool:
    """Return whether an endpoint refuses a request because there were too many before it."""
    if isinstance(error, RpcFailure):
        words = error.message.lower()
        return error.code in LIMIT_EXCEEDED or any(limit in words for limit in _LIMITS)
    return isinstance(error, EndpointError) and (error.status == TOO_MANY_REQUESTS or error.retry_after is not None)


def refuses_array(error: Exception) -> bool:
    """Return whether the error of several calls in one JSON-RPC array may be due to the array [LHD30]."""
    if isinstance(error, RpcFailure):
        return "batch" in error.message.lower() or not is_throttled(error)
    if not isinstance(error, EndpointError) or is_throttled(error):
        return False
    return isinstance(error, MalformedAnswerError) or (error.status is not None and 400 <= error.status <= 501)


def tls_code(text: str) -> Code | None:
    """Return the code of an error in which TLS is the cause; None for any other."""
    if BAD_CERTIFICATE in text:
        return Code.TLS_CERTIFICATE
    return Code.TLS_PORT if NO_TLS in text or any(item in text.lower() for item in _TLS_WANTED) else None


def is_ipc(url: str) -> bool:
    """Return whether an endpoint is the path of a Unix socket."""
    return url.startswith(("/", "./", "../"))


def endpoint_name(url: str) -> str:
    """Host and port of a URL, or the path of a socket, for logs and errors."""
    if is_ipc(url):
        return url
    parsed = parsed_url(url)
    if parsed is None:
        return "malformed endpoint"
    return f"{parsed.host}:{parsed.port}" if parsed.host else "endpoint without a host"


def parsed_url(text: str | URL) -> URL | None:
    """Return a URL; None for one that is malformed."""
    try:
        url = URL(text)
        # yarl decodes the name of the host when it is read.
        return url if url.host or url.host is None else None
    # The last for brackets before a host that is missing.
    except (ValueError, IndexError):
        return None


def why_not_connected(error: OSError) -> str:
    """Return the system's text for a connection that could not be opened, or that of TLS."""
    if isinstance(error, ssl.SSLError):
        return tls_reason(error)
    if isinstance(error, ConnectionResetError) and not error.errno:
        return "closed by the server in the TLS handshake"
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or type(error).__name__


def why_broken(error: BaseException) -> str:
    """Return the reason of a connection that broke: that of TLS if it has one, the system's, or the error's name."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return tls_reason(cause)
        cause = cause.__cause__ or cause.__context__
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else type(error).__name__


def tls_reason(error: ssl.SSLError) -> str:
    """Why TLS failed, in the words of OpenSSL."""
    if isinstance(error, ssl.SSLCertVerificationError) and error.verify_message:
        return f"TLS: {BAD_CERTIFICATE}, {error.verify_message}"
    # An error that Python makes has no reason.
    reason = getattr(error, "reason", None)
    if reason in _PLAIN_ANSWERS:
        return f"TLS: {NO_TLS} ({reason.replace('_', ' ').lower()})"
    text = reason or str(error.args[-1] if error.args else "").partition(" (_ssl")[0]
    return f"TLS: {text.replace('_', ' ').lower() or 'no reason given'}"
