"""Why an endpoint cannot be used, by what it answered."""

import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from yarl import URL

from rollup_node.node.checks.finding import Finding, error
from rollup_node.stages.engine.process.engine_client import TOKEN_CODES, code_of
from rollup_node.stages.io.http.client import HttpClient
from rollup_node.stages.io.http.endpoint_errors import (
    EndpointError,
    NoAnswerError,
    RpcFailure,
    endpoint_name,
    parsed_url,
    tls_code,
)
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import METHOD_NOT_FOUND

Failure = EndpointError | RpcFailure

TOKEN_SECONDS = 60
"""How far the time of a token may be from the engine's clock (Engine API, authentication)."""

MAX_BODY = 1 << 16

_RETRYABLE_STATUSES = frozenset({408, 425, 429})


def unusable(check: str, what: str, option: str, unreachable: Code, failure: Failure) -> Finding:
    """Return the finding for an endpoint that does not answer, or refuses; `what` names it in a sentence.

    TLS on one side alone, a certificate, or `unreachable` for anything else."""
    code = _tls_code(failure) or unreachable
    advice = "" if code is unreachable else f"{code.remedy} (--{option})"
    return error(check, code, f"{what} cannot be used, {failure}", advice)


def engine_code(failure: Failure) -> Code:
    """Return the code of an execution engine, or L2 source, that does not answer, or cannot be reached."""
    return Code.ENGINE_SLOW if isinstance(failure, NoAnswerError) else Code.ENGINE_UNREACHABLE


def is_final(failure: Failure) -> bool:
    """Whether another attempt would fail in the same way."""
    if isinstance(failure, RpcFailure):
        return failure.code == METHOD_NOT_FOUND
    status = failure.status
    refused = status is not None and 400 <= status < 500 and status not in _RETRYABLE_STATUSES
    return refused or _tls_code(failure) is not None


def _tls_code(failure: Failure) -> Code | None:
    return None if isinstance(failure, RpcFailure) else tls_code(str(failure))


async def rejection(check: str, url: str, jwt_source: str, failure: Failure, timeout: float) -> Finding | None:
    """Why an engine refuses us: our host name, our clock (by its Date header) or our secret; None if it does not."""
    code = code_of(failure)
    if code is Code.ENGINE_VHOST:
        text = f"the execution engine does not accept the host name of --l2 ({failure})"
        return error(check, Code.ENGINE_VHOST, text)
    if code not in TOKEN_CODES:
        return None
    skew = await clock_skew(url, timeout, direct=True)
    if code is Code.ENGINE_CLOCK or (skew is not None and abs(skew) > TOKEN_SECONDS):
        text = f"the execution engine rejects our JWT for its time ({failure})"
        return error(check, Code.ENGINE_CLOCK, text if skew is None else f"{text}: {skew_text(skew)}")
    advice = f"{Code.ENGINE_AUTH.remedy} (now {jwt_source}), and keep both clocks right"
    return error(check, Code.ENGINE_AUTH, f"the execution engine rejects our JWT ({failure})", advice)


def skew_text(skew: float) -> str:
    """Return the difference of an endpoint's clock in words; `skew` in seconds."""
    if abs(skew) < 1:
        return "its clock and ours agree within a second"
    return f"its clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} ours"


async def clock_skew(url: str, timeout: float, direct: bool = False) -> float | None:
    """Return the least seconds that a server's clock is ahead, by the Date header; None without an answer or date.

    By no proxy if `direct`."""
    try:
        address = parsed_url(url) or URL()
        address = address.with_scheme({"ws": "http", "wss": "https"}.get(address.scheme, address.scheme))
        _, _, headers, sent, received = await http_get(endpoint_name(url), address, {}, timeout, MAX_BODY, direct)
        date = parsedate_to_datetime(headers["date"]).timestamp() + 0.5
    except (EndpointError, ValueError, KeyError, OverflowError):
        return None
    # The server wrote its date at any time between the two.
    margin = 0.5 + (received - sent) / 2
    skew = date - (sent + received) / 2
    return 0.0 if abs(skew) <= margin else skew - margin if skew > 0 else skew + margin


class Answer(NamedTuple):
    """The answer of a server, `sent` and `received` in seconds since 1970, names of `headers` in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str]
    sent: float
    received: float


async def http_get(
    name: str, address: URL, headers: Mapping[str, str], timeout: float, limit: int, direct: bool = False
) -> Answer:
    """Return the answer within `timeout` seconds, up to `limit` bytes. Raises EndpointError naming `name`."""
    client = HttpClient(address, name, lambda: headers, direct=direct)
    sent = time.time()
    try:
        status, answered, body = await client.get(address, {}, timeout, limit)
        return Answer(status, body, answered, sent, time.time())
    finally:
        await client.close()
