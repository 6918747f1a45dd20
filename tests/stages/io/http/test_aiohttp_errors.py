"""What aiohttp's client raises ends in one of the endpoint's errors."""

import socket
from unittest.mock import Mock

import aiohttp
import pytest

from rollup_node.stages.io.http.aiohttp_errors import endpoint_errors
from rollup_node.stages.io.http.endpoint_errors import AnswerTooLargeError, EndpointError
from rollup_node.stages.io.http.http_body import BodyEncodingError, BodyTooLargeError


@pytest.mark.parametrize(
    ("raised", "kind", "text"),
    [
        (BodyTooLargeError(7), AnswerTooLargeError, "name: the answer is longer than 7 bytes"),
        (BodyEncodingError("damaged"), EndpointError, "name: damaged"),
        (
            aiohttp.ClientConnectorError(Mock(), socket.gaierror(socket.EAI_NONAME, "Name or service not known")),
            EndpointError,
            "name: cannot connect (Name or service not known)",
        ),
        (
            ConnectionResetError(104, "Connection reset by peer"),
            EndpointError,
            "name: the connection failed (Connection",
        ),
        (aiohttp.InvalidURL("nonsense"), EndpointError, "name: the connection failed (InvalidU"),
    ],
)
def test_each_error(raised: Exception, kind: type[EndpointError], text: str) -> None:
    with pytest.raises(EndpointError) as caught, endpoint_errors("name"):
        raise raised
    assert type(caught.value) is kind and str(caught.value).startswith(text)


def test_a_bug_is_none_of_them() -> None:
    with pytest.raises(KeyError), endpoint_errors("name"):
        raise KeyError
