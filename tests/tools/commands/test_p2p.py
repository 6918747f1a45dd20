"""The commands `p2p genkey`, `priv2id` and `pub2id`: their output, and errors in one line."""

import io
from collections.abc import Callable

import pytest

from rollup_node.stages.p2p.addresses.peer_id import NetworkIdentity, parse_peer_id
from rollup_node.stages.protocol import secp256k1
from tests.support.processes.cli import Cli

SECRET = bytes([1]) * 32
Feed = Callable[[str], None]


@pytest.fixture
def feed(monkeypatch: pytest.MonkeyPatch) -> Feed:
    """Give the next command this text on standard input."""
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


def peer_id(cli: Cli, feed: Feed, key: str, command: str) -> str:
    feed(key)
    return cli.out("p2p", command).strip()


def test_a_private_and_its_public_key_in_both_forms_have_one_peer_id(cli: Cli, feed: Feed) -> None:
    by_private = peer_id(cli, feed, f"0x{SECRET.hex()}\n", "priv2id")
    assert by_private.startswith("16Uiu2HA") and parse_peer_id(by_private) == NetworkIdentity(SECRET).peer_id
    points = [secp256k1.public_key(SECRET, compressed).hex() for compressed in (True, False)]
    assert {peer_id(cli, feed, point, "pub2id") for point in points} == {by_private}


def test_generated_keys_are_valid_and_differ(cli: Cli, feed: Feed) -> None:
    keys = {cli.out("p2p", "genkey").strip() for _ in range(3)}
    assert len(keys) == 3 and {len(key) for key in keys} == {64}
    assert all(peer_id(cli, feed, key, "priv2id").startswith("16Uiu2HA") for key in keys)


@pytest.mark.parametrize(
    ("text", "words", "error"),
    [
        ("", "priv2id", "standard input must be a private key in hex"),
        ("zz", "pub2id", "standard input must be a public key in hex"),
        ("00" * 32, "priv2id", "p2p priv2id: the private key is not a number of 32 bytes"),
        ("11" * 31, "priv2id", "p2p priv2id: the private key is not"),
        ("04" + "11" * 64, "pub2id", "p2p pub2id: the public key is not a point"),
    ],
)
def test_bad_input_is_reported_in_one_line(text: str, words: str, error: str, cli: Cli, feed: Feed) -> None:
    feed(text)
    assert error in cli.refused("p2p", *words.split())


@pytest.mark.parametrize("words", [(), ("--help",)])
def test_help_lists_the_commands(words: tuple[str, ...], cli: Cli) -> None:
    shown = cli.out("p2p", *words)
    assert all(name in shown for name in ("genkey", "priv2id", "pub2id"))
