"""The secret shared with the execution engine."""

import os
import stat
from pathlib import Path

import pytest

from rollup_node.node.options.errors import OptionError
from rollup_node.node.setup.jwt_secret import load_jwt_secret

HEX = "0123456789abcdef" * 4


@pytest.mark.parametrize("text", [HEX, f"0x{HEX}", f"  0x{HEX.upper()}\n"])
def test_a_valid_file_is_read(tmp_path: Path, text: str) -> None:
    file = tmp_path / "jwt"
    file.write_text(text)
    found = load_jwt_secret(str(file))
    assert (found.secret.hex(), found.path, found.is_new) == (HEX, file, False)
    assert file.read_text() == text


@pytest.mark.parametrize("content", [None, "", "\n  \n"])
def test_a_missing_or_empty_file_gets_a_new_secret(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "jwt"
    if content is not None:
        file.write_text(content)
        file.chmod(0o644)
    first = load_jwt_secret(str(file))
    assert first.is_new and len(first.secret) == 32
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text() == f"0x{first.secret.hex()}\n"
    again = load_jwt_secret(str(file))
    assert (again.secret, again.is_new) == (first.secret, False)


def test_without_a_file_it_is_node_jwt_txt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = load_jwt_secret(None)
    assert found.path == tmp_path / "node_jwt.txt"
    assert load_jwt_secret("").secret == found.secret


@pytest.mark.parametrize(
    "content", [HEX[:-1], HEX + "00", "0x" + "zz" * 32, f"0x0x{HEX}", " ".join([HEX[:32], HEX[32:]]), "a" * 10000]
)
def test_a_malformed_file_is_rejected_and_kept(tmp_path: Path, content: str) -> None:
    file = tmp_path / "jwt"
    file.write_text(content)
    with pytest.raises(OptionError, match="is malformed: expected 32 bytes as 64 hex digits"):
        load_jwt_secret(str(file))
    assert file.read_text() == content


def test_bytes_that_are_no_text_are_malformed(tmp_path: Path) -> None:
    file = tmp_path / "jwt"
    file.write_bytes(os.urandom(32) + b"\xff")
    with pytest.raises(OptionError, match="is malformed"):
        load_jwt_secret(str(file))


def test_what_is_no_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="is not a file"):
        load_jwt_secret(str(tmp_path))
    with pytest.raises(OptionError, match="No such file or directory"):
        load_jwt_secret(str(tmp_path / "no" / "such"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OptionError, match="is not a file"):
        load_jwt_secret(str(tmp_path / "pipe"))


def test_a_secret_that_every_user_may_write_to_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "jwt"
    file.write_text(HEX)
    file.chmod(0o666)
    with pytest.raises(OptionError, match="may be written by every user"):
        load_jwt_secret(str(file))
    file.chmod(0o664)
    assert load_jwt_secret(str(file)).secret.hex() == HEX


def test_a_secret_may_be_a_link_but_is_not_created_through_one(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    with pytest.raises(OptionError, match="link cannot be used: is a symbolic link"):
        load_jwt_secret(str(tmp_path / "link"))
    assert not (tmp_path / "target").exists()
    (tmp_path / "target").write_text(HEX)
    assert load_jwt_secret(str(tmp_path / "link")).secret.hex() == HEX
