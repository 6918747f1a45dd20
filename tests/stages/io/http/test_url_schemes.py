"""Which transport a URL asks for."""

import pytest

from rollup_node.stages.io.http.url_schemes import is_plain_http, is_web_socket


@pytest.mark.parametrize(
    ("url", "is_plain"),
    [
        ("http://127.0.0.1:8545", True),
        ("HTTP://host/path", True),
        ("https://host", False),
        ("ws://host", False),
        ("http://[", False),
        ("http:///path", False),
        ("nonsense", False),
    ],
)
def test_which_urls_are_plain_http(url: str, is_plain: bool) -> None:
    assert is_plain_http(url) == is_plain


@pytest.mark.parametrize(
    ("url", "expected"),
    [("ws://host", True), ("WSS://host:1/path", True), ("http://host", False), ("ws://[", False), ("nonsense", False)],
)
def test_which_urls_are_web_sockets(url: str, expected: bool) -> None:
    assert is_web_socket(url) == expected
