"""What other HTTP statuses than 200 mean."""

import pytest

from rollup_node.stages.io.http.endpoint_errors import EndpointError
from rollup_node.stages.io.http.http_status import raise_for_status
from rollup_node.stages.io.http.json_answers import RpcFailure

FAILURE = b'{"id":1,"error":{"code":-5,"message":"no"}}'


@pytest.mark.parametrize("status", [204, 302, 400, 401, 403])
def test_an_error_object_is_a_failure(status: int) -> None:
    with pytest.raises(RpcFailure, match="error -5: no"):
        raise_for_status("name", status, FAILURE, "")


@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_overloaded_or_broken_server_is_an_endpoint_error(status: int) -> None:
    with pytest.raises(EndpointError, match=f'^name: HTTP status {status}: {{"id":1,'):
        raise_for_status("name", status, FAILURE, "")


@pytest.mark.parametrize(("header", "seconds"), [("", None), ("7", 7.0), ("Wed, 21 Oct 2015", None), ("-1", None)])
def test_the_seconds_of_retry_after(header: str, seconds: float | None) -> None:
    with pytest.raises(EndpointError, match=r"^name: HTTP status 401$") as caught:
        raise_for_status("name", 401, b"", header)
    assert (caught.value.status, caught.value.retry_after) == (401, seconds)
