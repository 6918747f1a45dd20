"""Who may call what [RPC5, RPC86 to RPC88]."""

import pytest

from rollup_node.stages.rpc.access import Access

SECRET = bytes(32)


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        *((None, True), ("", True), ("127.0.0.1:9545", True), ("[::1]:9545", True), ("::1", False)),
        *(("node.example", True), ("NODE.example.:9545", True)),
        *(("evil.example", False), ("1.2.3.4.evil.example", False)),
    ],
)
def test_named_hosts_and_addresses_are_accepted(header: str | None, accepted: bool) -> None:
    """[RPC86]"""
    assert Access(vhosts=("Node.example",)).accepts_host(header) is accepted
    assert Access().accepts_host(header)


def test_no_web_page_may_call_unless_its_origin_is_named() -> None:
    """[RPC5]"""
    assert Access().accepts_origin(None)
    assert not Access().accepts_origin("http://x")
    assert not Access().accepts_origin("")
    assert Access(cors_domains=("https://x.example",)).accepts_origin("https://X.example")
    assert not Access(cors_domains=("https://x.example",)).accepts_origin("http://x.example")
    assert Access(cors_domains=("*",)).accepts_origin("null")
