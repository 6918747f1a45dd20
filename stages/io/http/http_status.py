"""What a response with another HTTP status than 200 means for a JSON-RPC client."""

from typing import NoReturn

from rollup_node.stages.io.http.endpoint_errors import EndpointError
from rollup_node.stages.io.http.json_answers import failure_in
from rollup_node.stages.protocol.foreign_json import shown_body

TOO_MANY_REQUESTS = 429


def raise_for_status(endpoint: str, status: int, body: bytes, retry_after: str) -> NoReturn:
    """Raises RpcFailure for an error object in the body, unless the status says that the server is overloaded or
    broken, and EndpointError otherwise."""
    if status != TOO_MANY_REQUESTS and status < 500 and (failure := failure_in(body)) is not None:
        raise failure
    text = f"HTTP status {status}" + (f": {shown_body(body)}" if body else "")
    raise EndpointError(endpoint, text, status, _seconds(retry_after))


def _seconds(header: str) -> float | None:
    """The seconds of a Retry-After header; None if it is empty or holds a date."""
    return float(header) if header.isascii() and header.isdigit() else None
