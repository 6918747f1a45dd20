"""The texts of errors of endpoints."""

import errno
import ssl

import aiohttp

from rollup_node.stages.io.http import endpoint_errors


def test_endpoint_names_show_no_credentials() -> None:
    assert endpoint_errors.endpoint_name("https://user:pw@host.example/v3/key") == "host.example:443"
    assert endpoint_errors.endpoint_name("http://[::1]:8545") == "::1:8545"
    assert endpoint_errors.endpoint_name("nonsense") == "endpoint without a host"
    assert endpoint_errors.endpoint_name("http://[") == "malformed endpoint"


def test_an_endpoint_that_is_up_and_slow() -> None:
    error = endpoint_errors.NoAnswerError("host:1", 2.5)
    assert isinstance(error, endpoint_errors.EndpointError) and str(error) == "host:1: no answer within 2.5 s"


def test_the_reason_of_a_broken_connection() -> None:
    assert endpoint_errors.why_broken(OSError(errno.ECONNRESET, "")) == "Connection reset by peer"
    assert endpoint_errors.why_broken(aiohttp.ClientPayloadError("secret")) == "ClientPayloadError"
    broken = aiohttp.ClientOSError(errno.EPIPE, "")
    broken.__cause__ = ssl.SSLError(1, "[SSL: SOME_ALERT] some alert (_ssl.c:1)")
    assert endpoint_errors.why_broken(broken) == "TLS: [ssl: some alert] some alert"
    assert endpoint_errors.tls_reason(ssl.SSLError()) == "TLS: no reason given"
    refused = ssl.SSLCertVerificationError(1, "text")
    refused.verify_message = "self-signed certificate"
    assert endpoint_errors.why_not_connected(refused) == "TLS: certificate not accepted, self-signed certificate"
    assert endpoint_errors.why_not_connected(OSError(errno.ECONNREFUSED, "")) == "Connection refused"


def test_a_server_without_tls_is_named() -> None:
    """Whatever OpenSSL calls the bytes that are no TLS record."""
    for reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        error = ssl.SSLError(1, f"[SSL: {reason}] text (_ssl.c:1)")
        error.reason = reason
        words = reason.replace("_", " ").lower()
        assert endpoint_errors.why_not_connected(error) == f"TLS: the port does not speak TLS ({words})"
