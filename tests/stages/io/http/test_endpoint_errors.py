"""The texts of errors of endpoints."""

import errno
import ssl

import aiohttp

from rollup_node.stages.io.http.endpoint_errors import (
    EndpointError,
    MalformedAnswerError,
    RpcFailure,
    endpoint_name,
    is_throttled,
    refuses_array,
    tls_reason,
    why_broken,
    why_not_connected,
)


def test_endpoint_names_show_no_credentials() -> None:
    assert endpoint_name("https://user:pw@host.example/v3/key") == "host.example:443"
    assert endpoint_name("http://[::1]:8545") == "::1:8545"
    assert endpoint_name("nonsense") == "endpoint without a host"
    assert endpoint_name("http://[") == endpoint_name("http://[u]@") == "malformed endpoint"


def test_the_reason_of_a_broken_connection() -> None:
    assert why_broken(OSError(errno.ECONNRESET, "")) == "Connection reset by peer"
    assert why_broken(aiohttp.ClientPayloadError("secret")) == "ClientPayloadError"
    broken = aiohttp.ClientOSError(errno.EPIPE, "")
    broken.__cause__ = ssl.SSLError(1, "[SSL: SOME_ALERT] some alert (_ssl.c:1)")
    assert why_broken(broken) == "TLS: [ssl: some alert] some alert"
    assert tls_reason(ssl.SSLError()) == "TLS: no reason given"
    refused = ssl.SSLCertVerificationError(1, "text")
    refused.verify_message = "self-signed certificate"
    assert why_not_connected(refused) == "TLS: certificate not accepted, self-signed certificate"
    assert why_not_connected(OSError(errno.ECONNREFUSED, "")) == "Connection refused"
    # Whatever OpenSSL calls the bytes that are no TLS record.
    for reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        error = ssl.SSLError(1, f"[SSL: {reason}] text (_ssl.c:1)")
        error.reason = reason
        words = reason.replace("_", " ").lower()
        assert why_not_connected(error) == f"TLS: the port does not speak TLS ({words})"


def test_what_is_a_rate_limit() -> None:
    limits = (EndpointError("e", "busy", 429), EndpointError("e", "busy", 503, 3.0), RpcFailure(429, "too many"))
    assert all(map(is_throttled, (*limits, RpcFailure(-32005, "x"), RpcFailure(-32000, "Too Many Requests"))))
    others = (EndpointError("e", "gone", 503), RpcFailure(-32000, "boom"), ValueError("429"))
    assert not any(map(is_throttled, others))


def test_what_may_refuse_an_array() -> None:
    """[LHD30]"""
    texts = {-32600: "invalid request", -32007: "batch requests are not allowed", -32005: "batch size limit exceeded"}
    refusals = (MalformedAnswerError("e", "not a list"), *(RpcFailure(*item) for item in texts.items()))
    assert all(map(refuses_array, refusals))
    assert not any(map(refuses_array, (RpcFailure(-32005, "limit exceeded"), ValueError("batch"))))
    statuses = (400, 404, 413, 500, 501, None, 302, 429, 502, 503)
    assert [refuses_array(EndpointError("e", "no", status)) for status in statuses] == [True] * 5 + [False] * 5
