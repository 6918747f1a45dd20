"""The secrets of a node, read from their files; a missing one is created."""

import os
import secrets
import select
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rollup_node.node.options.errors import OptionError
from rollup_node.node.options.values import Values
from rollup_node.node.setup.notices import Notice
from rollup_node.node.setup.p2p import check_p2p_config, load_network_key
from rollup_node.node.setup.plan import NodePlan, NodeSecrets
from rollup_node.stages.io.files.private_files import open_private_file, others_may_write, why_unusable
from rollup_node.stages.io.http.endpoint_errors import is_ipc
from rollup_node.stages.io.log.logger import Level


def load_secrets(plan: NodePlan, notice: Callable[[Notice], None], may_create: bool = True) -> NodeSecrets:
    """Return the JWT secrets, and the network key if there is a peer-to-peer network.

    `notice` gets a line for each new one; without `may_create` no JWT secret is new. An engine behind an IPC socket
    needs none [OPT13]. Raises OptionError for a file or an option that is malformed, SetupError for a file that cannot
    be used."""

    def load(option: str, user: str) -> JwtSecret:
        if not may_create and stored_jwt_secret(plan.values[option], option) is None:
            raise OptionError(f"JWT secret file {plan.values[option] or DEFAULT_FILE} has no secret ({option})")
        jwt = load_jwt_secret(plan.values[option], option)
        if jwt.is_new:
            notice(Notice(Level.INFO, f"created a new JWT secret in {jwt.source}: {user}"))
        return jwt

    if is_ipc(plan.values["l2"]):
        jwt = JwtSecret(b"", str(DEFAULT_FILE), False)
    else:
        jwt = encoded_jwt_secret(plan.values) or load("l2.jwt-secret", "the execution engine needs it")
    rpc_jwt, interop_jwt = None, b""
    if plan.values["rpc.jwt-secret"]:
        rpc_jwt = load("rpc.jwt-secret", "clients of the admin API need it").secret
    if plan.values["interop.rpc.addr"]:
        interop_jwt = load("interop.jwt-secret", "the interop supervisor needs it").secret
    if plan.p2p is None:
        return NodeSecrets(jwt.secret, jwt.source, None, rpc_jwt, interop_jwt)
    # Here, so that a wrong option leaves no new key behind.
    check_p2p_config(plan.p2p)
    is_new = plan.p2p.priv_raw is None and not os.path.exists(plan.p2p.priv_path)
    identity = load_network_key(plan.p2p)
    if is_new:
        notice(Notice(Level.INFO, f"created a new network key in {plan.p2p.priv_path}"))
    return NodeSecrets(jwt.secret, jwt.source, identity.secret, rpc_jwt, interop_jwt)


DEFAULT_FILE = Path("node_jwt.txt")
SECRET_BYTES = 32
MAX_FILE = 4096
PIPE_SECONDS = 10.0
_pipes: dict[Path, str] = {}
"""What came from pipes, which can be read once: a node may start again."""


class JwtSecret(NamedTuple):
    """The secret, the absolute path of its file or its option, and whether it was created now."""

    secret: bytes
    source: str
    is_new: bool


def encoded_jwt_secret(values: Values) -> JwtSecret | None:
    """Return the secret of `l2.jwt-secret-encoded`, None without one."""
    secret, source = values["l2.jwt-secret-encoded"], values.source("l2.jwt-secret-encoded")
    return JwtSecret(secret, source, False) if secret else None


def load_jwt_secret(file: str | None, option: str = "l2.jwt-secret") -> JwtSecret:
    """Return the secret in the file of an option, or in node_jwt.txt.

    A missing or empty file gets a new secret, which only its owner may read. Raises OptionError for a file that is
    malformed or cannot be used."""
    stored = stored_jwt_secret(file, option)
    if stored is not None:
        return stored
    path = Path(file) if file else DEFAULT_FILE
    try:
        return JwtSecret(_write_new(path), str(path.absolute()), True)
    except OSError as error:
        raise _unusable(path, error, option) from None


def stored_jwt_secret(file: str | None, option: str = "l2.jwt-secret") -> JwtSecret | None:
    """Return the secret in the file of an option, or in node_jwt.txt, None where a start would make a new one.

    Writes nothing. Raises OptionError for a file that is malformed or cannot be used."""
    path = Path(file) if file else DEFAULT_FILE
    try:
        text = _read(path, option)
    except OSError as error:
        raise _unusable(path, error, option) from None
    if text is None or not text.strip():
        return None
    return JwtSecret(_parse(text, path, option), str(path.absolute()), False)


def _unusable(path: Path, error: OSError, option: str) -> OptionError:
    return OptionError(f"JWT secret file {path.absolute()} cannot be used: {why_unusable(path, error)} ({option})")


def _read(path: Path, option: str) -> str | None:
    try:
        # Without O_NONBLOCK opening a named pipe waits for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        value = os.fstat(descriptor)
        if not stat.S_ISREG(value.st_mode) and not stat.S_ISFIFO(value.st_mode):
            raise OptionError(f"JWT secret file {path} is not a file ({option})")
        # The engine's user may own it, and a group may share it.
        if others_may_write(descriptor, value, path, stat.S_IWOTH):
            raise OptionError(f"JWT secret file {path} may be written by every user: chmod o-w ({option})")
        if stat.S_ISFIFO(value.st_mode):
            return _pipes.get(path) or _pipes.setdefault(path, _read_pipe(descriptor, path, option))
        return os.read(descriptor, MAX_FILE).decode("utf-8", "replace")
    finally:
        os.close(descriptor)


def _read_pipe(descriptor: int, path: Path, option: str) -> str:
    """Return what comes from a pipe such as `<(decrypt jwt)` of a shell, until its end."""
    data, end, ready = b"", time.monotonic() + PIPE_SECONDS, select.poll()
    ready.register(descriptor, select.POLLIN)
    while len(data) < MAX_FILE:
        if not ready.poll(max(0.0, end - time.monotonic()) * 1000):
            raise OptionError(f"JWT secret file {path} is a pipe that did not end within {PIPE_SECONDS:g} s ({option})")
        if not (part := os.read(descriptor, MAX_FILE)):
            break
        data += part
    if not data.strip():
        raise OptionError(f"JWT secret file {path} is a pipe without a secret ({option})")
    return data.decode("utf-8", "replace")


def _write_new(path: Path) -> bytes:
    secret = secrets.token_bytes(SECRET_BYTES)
    # Not by a rename: an empty file may be mounted into a container by itself.
    descriptor = open_private_file(path, os.O_WRONLY | os.O_CREAT)
    with os.fdopen(descriptor, "w") as file:
        os.ftruncate(descriptor, 0)
        os.fchmod(descriptor, 0o600)
        file.write(f"0x{secret.hex()}\n")
    return secret


def _parse(text: str, path: Path, option: str) -> bytes:
    digits = text.strip()
    digits = digits[2:] if digits[:2] in ("0x", "0X") else digits
    digits = "0" * (len(digits) % 2) + digits
    try:
        secret = bytes.fromhex(digits)
    except ValueError:
        secret = b""
    if len(secret) != SECRET_BYTES or len(digits) != 2 * SECRET_BYTES:
        raise OptionError(
            f"JWT secret file {path} is malformed: expected {SECRET_BYTES} bytes as {2 * SECRET_BYTES} hex digits;"
            f" give the right file with --{option}, or empty it for a new secret"
        )
    return secret
