"""The commands `p2p genkey`, `priv2id` and `pub2id`: their output, and errors in one line."""

import io

import pytest

from rollup_node.node.cli import main
from rollup_node.stages.p2p.identity.peer_id import NetworkIdentity, parse_peer_id
from rollup_node.stages.protocol import secp256k1

SECRET = bytes([1]) * 32


def run(monkeypatch: pytest.MonkeyPatch, text: str, *words: str) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    return main(["p2p", *words])


def output(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, *words: str) -> str:
    assert run(monkeypatch, text, *words) == 0
    return capsys.readouterr().out.strip()


def test_peer_ids_of_a_private_and_its_public_key_agree(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    identity = NetworkIdentity(SECRET)
    by_private = output(monkeypatch, capsys, f"0x{SECRET.hex()}\n", "priv2id")
    by_public = output(monkeypatch, capsys, identity.public_key.data.hex(), "pub2id")
    assert by_private == by_public
    assert by_private.startswith("16Uiu2HA")
    assert parse_peer_id(by_private) == identity.peer_id


def test_an_uncompressed_key_has_the_same_peer_id(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    points = [secp256k1.public_key(SECRET, compressed) for compressed in (True, False)]
    ids = {output(monkeypatch, capsys, point.hex(), "pub2id") for point in points}
    assert len(ids) == 1


def test_generated_keys_are_valid_and_differ(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = {output(monkeypatch, capsys, "", "genkey") for _ in range(3)}
    assert len(keys) == 3
    for key in keys:
        assert len(key) == 64
        assert output(monkeypatch, capsys, key, "priv2id").startswith("16Uiu2HA")


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("", ["priv2id"], "standard input must be a private key in hex"),
        ("zz", ["pub2id"], "standard input must be a public key in hex"),
        ("00" * 32, ["priv2id"], "p2p priv2id: the private key is not a number of 32 bytes"),
        ("11" * 31, ["priv2id"], "p2p priv2id: the private key is not"),
        ("04" + "11" * 64, ["pub2id"], "p2p pub2id: the public key is not a point"),
        ("", ["genkeys"], "unknown command p2p 'genkeys'; did you mean genkey"),
        ("", ["genkey", "more"], "p2p genkey takes no arguments"),
    ],
)
def test_bad_input_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, words: list[str], expected: str
) -> None:
    assert run(monkeypatch, text, *words) == 1
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("\n") == 1
    assert expected in shown.err


def test_help_lists_the_commands(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["--help"]):
        shown = output(monkeypatch, capsys, "", *words)
        assert all(name in shown for name in ("genkey", "priv2id", "pub2id"))
