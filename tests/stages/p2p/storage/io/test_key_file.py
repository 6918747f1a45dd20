"""The file of the network key (p2p.priv.path, p2p.priv.raw)."""

import os
import stat
from pathlib import Path

import pytest

from rollup_node.stages.p2p.addresses.peer_id import NetworkIdentity
from rollup_node.stages.p2p.storage.io.key_file import IdentityFileError, generate_secret, load_identity
from tests.support.p2p.hosts import config

SECRET = b"\x01" * 32


def load(path: Path, raw: bytes | None = None) -> NetworkIdentity:
    return load_identity(config(priv_path=str(path), priv_raw=raw))


@pytest.mark.option("p2p.priv.path")
def test_a_missing_file_is_created(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "key.txt"
    first = load(path)
    text = path.read_text()
    assert text == f"{first.secret.hex()}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load(path).peer_id == first.peer_id
    assert path.read_text() == text and [entry.name for entry in path.parent.iterdir()] == ["key.txt"]


@pytest.mark.parametrize("text", [SECRET.hex(), f"0x{SECRET.hex()}\n", f"  {SECRET.hex().upper()}  "])
def test_forms_of_the_key(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key.txt"
    path.write_text(text)
    assert load(path).secret == SECRET


@pytest.mark.option("p2p.priv.raw")
def test_the_raw_key_takes_precedence(tmp_path: Path) -> None:
    path = tmp_path / "key.txt"
    assert load(path, SECRET).secret == SECRET
    assert not path.exists()


@pytest.mark.parametrize("text", ["", "zz" * 32, "01" * 31, "01" * 33, "00" * 32, "ff" * 32, "0x"])
def test_malformed_files_are_reported_and_unchanged(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key.txt"
    path.write_text(text)
    with pytest.raises(IdentityFileError, match=r"key.txt"):
        load(path)
    assert path.read_text() == text


def test_non_regular_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(IdentityFileError, match=r"p2p.priv.path"):
        load(tmp_path)
    with pytest.raises(IdentityFileError, match="not a number"):
        load(tmp_path / "none", bytes(32))


def test_generated_secrets_differ() -> None:
    assert generate_secret() != generate_secret()


def test_a_key_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    load(path)
    path.chmod(0o666)
    with pytest.raises(IdentityFileError, match=r"key: others may write to it \(mode 666\)"):
        load(path)


def test_a_key_may_be_mounted_as_a_link(tmp_path: Path) -> None:
    created = load(tmp_path / "data")
    (tmp_path / "key").symlink_to("data")
    assert load(tmp_path / "key").secret == created.secret


def test_no_key_is_created_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "key").symlink_to("absent")
    with pytest.raises(IdentityFileError, match="key: is a symbolic link"):
        load(tmp_path / "key")
    assert not (tmp_path / "absent").exists()
    (tmp_path / f"other.{os.getpid()}").symlink_to("absent")
    load(tmp_path / "other")
    assert not (tmp_path / "absent").exists() and not (tmp_path / "other").is_symlink()
