"""The secrets of a node are read, or created where they are missing."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from rollup_node.node.options.errors import OptionError
from rollup_node.node.setup import secrets as module
from rollup_node.node.setup.secrets import load_jwt_secret
from rollup_node.node.system.exit_codes import SetupError
from tests.node.setup.planning import JWT, prepare
from tests.support.processes.denied_calls import needs_filter

ROOT = Path(__file__).parents[3]


def test_secrets_are_read(working_directory: Path) -> None:
    node = prepare(f"--p2p.priv.raw={'12' * 32}", "--p2p.peerstore.path=memory", "--p2p.discovery.path=memory")
    assert (node.secrets.jwt, node.secrets.jwt_source) == (JWT, f"{working_directory}/node_jwt.txt")
    assert node.secrets.network_key == b"\x12" * 32
    (notice,) = node.notices
    assert notice.startswith("flag --p2p.priv.raw: a secret on the command line can be read by others")  # [OPT88]
    assert [path.name for path in working_directory.iterdir()] == ["node_jwt.txt"]


def test_missing_secrets_are_created_once_with_a_notice(working_directory: Path) -> None:
    (working_directory / "node_jwt.txt").unlink()
    first, second = prepare(), prepare()
    assert first.notices == [
        f"created a new JWT secret in {working_directory}/node_jwt.txt: the execution engine needs it",
        "created a new network key in node_p2p_priv.txt",
    ]
    assert second.notices == [] and second.secrets == first.secrets
    assert (working_directory / "node_jwt.txt").read_text().strip() == f"0x{first.secrets.jwt.hex()}"
    key = (working_directory / "node_p2p_priv.txt").read_text().strip()
    assert first.secrets.network_key == bytes.fromhex(key)
    assert first.configs.p2p is not None and first.configs.p2p.priv_raw == bytes.fromhex(key)


def test_an_engine_behind_a_socket_needs_no_secret(working_directory: Path) -> None:
    """[OPT13, WSK7] Neither a file that is given is read, nor a new one written."""
    (working_directory / "node_jwt.txt").unlink()
    for words in (("--l2=/run/engine.ipc",), ("--l2=./engine.ipc", "--l2.jwt-secret=nowhere/jwt.txt")):
        node = prepare(*words)
        assert node.secrets.jwt == node.configs.engine.jwt_secret == b""
        assert node.configs.engine.url == words[0].removeprefix("--l2=")
    assert not list(working_directory.glob("*jwt*"))


@pytest.mark.option("l2.jwt-secret-encoded")
def test_the_secret_itself_needs_no_file(working_directory: Path) -> None:
    """[OPT89]"""
    (working_directory / "node_jwt.txt").unlink()
    node = prepare(f"--l2.jwt-secret-encoded=0x{'2a' * 32}")
    assert node.secrets.jwt == node.configs.engine.jwt_secret == b"\x2a" * 32
    assert node.secrets.jwt_source == "flag --l2.jwt-secret-encoded"
    assert not list(working_directory.glob("*jwt*"))
    with pytest.raises(OptionError, match=r"cannot specify both a secret and its file: flag --l2\.jwt-secret and flag"):
        prepare(f"--l2.jwt-secret-encoded={'2a' * 32}", "--l2.jwt-secret=jwt.txt")


@pytest.mark.option("rpc.jwt-secret")
def test_the_admin_api_has_a_secret_of_its_own_if_asked_for(working_directory: Path) -> None:
    assert prepare().configs.rpc.jwt_secret is None
    first, second = prepare("--rpc.jwt-secret=admin.txt"), prepare("--rpc.jwt-secret=admin.txt")
    assert first.notices == [
        f"created a new JWT secret in {working_directory}/admin.txt: clients of the admin API need it"
    ]
    assert second.notices == []
    assert first.configs.rpc.jwt_secret == second.configs.rpc.jwt_secret not in (None, JWT)
    (working_directory / "admin.txt").write_text("0x12")
    with pytest.raises(OptionError, match=r"JWT secret file admin.txt is malformed.*--rpc.jwt-secret"):
        prepare("--rpc.jwt-secret=admin.txt")


@pytest.mark.option("interop.jwt-secret")
def test_the_interop_server_has_a_secret_of_its_own(working_directory: Path) -> None:
    """[IOP2]"""
    words = ("--interop.rpc.addr=127.0.0.1", "--interop.jwt-secret=interop.txt", "--p2p.disable")
    first, second = prepare(*words), prepare(*words)
    assert first.notices == [
        f"created a new JWT secret in {working_directory}/interop.txt: the interop supervisor needs it"
    ]
    assert second.notices == []
    assert first.configs.rpc.interop_jwt == second.configs.rpc.interop_jwt not in (b"", JWT)
    assert prepare("--interop.jwt-secret=other.txt", "--p2p.disable").configs.rpc.interop_jwt == b""
    assert not (working_directory / "other.txt").exists()


def test_without_peers_there_is_no_network_key(working_directory: Path) -> None:
    assert prepare("--p2p.disable").secrets.network_key is None
    assert [path.name for path in working_directory.iterdir()] == ["node_jwt.txt"]


@pytest.mark.option("l2.jwt-secret")
@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--l2.jwt-secret=bad.txt", "--p2p.bootnodes=x", "--p2p.priv.path=bad.txt"), "JWT secret file bad.txt"),
        (("--p2p.bootnodes=x", "--p2p.priv.path=bad.txt", "--p2p.static=x"), "p2p.bootnodes"),
        (("--p2p.priv.path=bad.txt", "--p2p.static=x", "--p2p.peerstore.path=bad.txt"), "network key file bad.txt"),
        (("--p2p.static=x", "--p2p.peerstore.path=bad.txt"), "p2p.static"),
        (("--p2p.peerstore.path=bad.txt", "--p2p.discovery.path=bad.txt"), "p2p.peerstore.path"),
        (("--network=op-none", "--l2.jwt-secret=bad.txt"), "invalid network"),
    ],
)
def test_the_first_of_several_errors_is_reported(working_directory: Path, words: tuple[str, ...], error: str) -> None:
    """In this order: options and chain, JWT secret, texts, network key, static peers, databases."""
    (working_directory / "bad.txt").write_text("not what it should be, and long enough to be looked at" * 4)
    with pytest.raises(SetupError, match=error):
        prepare(*words)


HEX = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "text", [HEX, f"0x{HEX}", f"  0x{HEX.upper()}\n", f"0X{HEX}", HEX[1:], f"0x{HEX[1:]}"]
)  # begins with 0
def test_a_valid_file_is_read(tmp_path: Path, text: str) -> None:
    file = tmp_path / "jwt"
    file.write_text(text)
    jwt_secret = load_jwt_secret(str(file))
    assert (jwt_secret.secret.hex(), jwt_secret.source, jwt_secret.is_new) == (HEX, str(file), False)
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


@pytest.mark.parametrize(
    "content",
    [HEX[2:], HEX + "0", "0x" + "zz" * 32, f"0x0x{HEX}", " ".join([HEX[:32], HEX[32:]]), "a" * 10000, "\xff" * 33],
)
def test_a_malformed_file_is_rejected_and_kept(tmp_path: Path, content: str) -> None:
    """Of bytes that are no text too."""
    file = tmp_path / "jwt"
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(OptionError, match="is malformed: expected 32 bytes as 64 hex digits"):
        load_jwt_secret(str(file))
    assert file.read_bytes() == content.encode("latin-1")


def test_what_is_no_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="is not a file"):
        load_jwt_secret(str(tmp_path))
    with pytest.raises(OptionError, match=r"such cannot be used: its folder /.*/no does not exist \(l2\.jwt-secret\)"):
        load_jwt_secret(str(tmp_path / "no" / "such"))
    with pytest.raises(OptionError, match="is not a file"):
        load_jwt_secret("/dev/null")


@pytest.mark.parametrize(
    ("writes", "error"), [("", "without a secret"), ("0x12", "malformed"), (None, r"did not end within 0\.2 s")]
)
def test_a_pipe_without_a_secret_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: str | None, error: str
) -> None:
    monkeypatch.setattr(module, "PIPE_SECONDS", 0.2 if writes is None else 30.0)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    command = ["sh", "-c", f"exec sleep 60 > {pipe}" if writes is None else f"printf '{writes}' > {pipe}"]
    with subprocess.Popen(command) as writer:
        with pytest.raises(OptionError, match=error):
            load_jwt_secret(str(pipe))
        writer.kill()


def test_a_secret_may_come_from_a_pipe_and_is_kept_for_the_next_start(working_directory: Path) -> None:
    (working_directory / "secret").write_text(f"0x{HEX}\n")
    with subprocess.Popen(["cat", "secret"], stdout=subprocess.PIPE, cwd=working_directory) as cat:
        assert cat.stdout is not None
        words = (f"--l2.jwt-secret=/dev/fd/{cat.stdout.fileno()}", "--p2p.disable")
        assert [prepare(*words).secrets.jwt.hex() for _ in range(2)] == [HEX, HEX]


PROGRAM = """
import os, sys
from rollup_node.node.setup import secrets as module
from rollup_node.node.setup.secrets import load_jwt_secret
from rollup_node.stages.io.files.private_files import read_secret_file
from tests.support.processes.denied_calls import CHMOD, FCHMOD, deny
for error in map(int, sys.argv[2:]):
    if os.fork():
        os.wait()
        continue
    deny(dict.fromkeys((CHMOD, FCHMOD), error))
    print(load_jwt_secret(sys.argv[1]).secret.hex(), read_secret_file(sys.argv[1], 100).decode(), flush=True)
    os._exit(0)
"""


@needs_filter
def test_a_file_system_without_modes_has_secrets_that_all_may_write_to(tmp_path: Path) -> None:
    """[OPT86] There chmod does nothing, or is refused."""
    words = (sys.executable, "-c", PROGRAM, str(tmp_path / "jwt"), "0", str(errno.EPERM), str(errno.EOPNOTSUPP))
    file = tmp_path / "jwt"
    file.write_text(HEX)
    file.chmod(0o777)
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=50)
    assert done.stdout == f"{HEX} {HEX}\n" * 3
    lines = done.stderr.splitlines()
    assert len(lines) == 3
    for line in lines:
        assert line.startswith("warn files: others may write to a file whose file system keeps no modes: mount it")
        assert "code=FILE" in line and "mode=777" in line


def test_a_secret_that_every_user_may_write_to_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "jwt"
    file.write_text(HEX)
    file.chmod(0o666)
    with pytest.raises(OptionError, match="may be written by every user"):
        load_jwt_secret(str(file))
    file.chmod(0o664)
    assert load_jwt_secret(str(file)).secret.hex() == HEX
    assert stat.S_IMODE(file.stat().st_mode) == 0o664


def test_a_secret_may_be_a_link_but_is_not_created_through_one(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    with pytest.raises(OptionError, match="link cannot be used: is a symbolic link"):
        load_jwt_secret(str(tmp_path / "link"))
    assert not (tmp_path / "target").exists()
    (tmp_path / "target").write_text(HEX)
    assert load_jwt_secret(str(tmp_path / "link")).secret.hex() == HEX
