"""Addresses are shown without what may be a key."""

import pytest

from rollup_node.tools.convert.masks import masked_address


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://127.0.0.1:8545", "http://127.0.0.1:8545"),
        ("https://a/v3/KEY", "https://a/***"),
        ("wss://KEY@b", "wss://***@b"),
        ("https://a?key=KEY", "https://a/***"),
        ("http://[::1", "***"),
        ("enr://a/b", "enr://a/b"),
        ("/a/b.ipc", "/a/b.ipc"),
    ],
)
def test_an_address(text: str, shown: str) -> None:
    assert masked_address(text) == shown
