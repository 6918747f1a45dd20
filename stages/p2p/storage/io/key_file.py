"""The file of the network key (`p2p.priv.path`): 64 hex digits, 0x accepted, mode 0600, created when missing [NET7]."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from rollup_node.stages.io.files.private_files import (
    check_private_file,
    create_private_file,
    read_secret_file,
    why_unusable,
)
from rollup_node.stages.p2p.addresses.peer_id import IdentityError, NetworkIdentity
from rollup_node.stages.p2p.config import P2pConfig

_MAX_FILE_BYTES = 4096


class IdentityFileError(Exception):
    """The key is unavailable; the text says why and what to do."""


def generate_secret() -> bytes:
    """Generate a random secp256k1 private key."""
    while True:
        secret = secrets.token_bytes(32)
        try:
            return NetworkIdentity(secret).secret
        except IdentityError:
            continue


def load_identity(config: P2pConfig) -> NetworkIdentity:
    """Load the identity from `p2p.priv.raw` or `p2p.priv.path`, created when missing. Raises IdentityFileError."""
    if config.priv_raw is not None:
        return _identity(config.priv_raw, "p2p.priv.raw")
    path = config.priv_path
    try:
        text = _read(path)
        if text is None:
            secret = generate_secret()
            _write(path, secret)
            return NetworkIdentity(secret)
    except OSError as error:
        file = f"network key file {Path(path).absolute()}"
        raise IdentityFileError(f"{file}: {why_unusable(path, error)} (p2p.priv.path)") from None
    return _identity(_parse(text, path), path)


def _identity(secret: bytes, source: str) -> NetworkIdentity:
    try:
        return NetworkIdentity(secret)
    except IdentityError as error:
        raise IdentityFileError(f"{source}: {error}") from None


def _parse(text: str, path: str) -> bytes:
    digits = text.strip().removeprefix("0x")
    try:
        if len(digits) == 64:
            return bytes.fromhex(digits)
    except ValueError:
        pass
    raise IdentityFileError(
        f"network key file {path} is malformed: expected 64 hex digits; `rollup-node p2p genkey` prints one, and a"
        " missing file is created (p2p.priv.path)"
    )


def _read(path: str) -> str | None:
    try:
        return read_secret_file(path, _MAX_FILE_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return None


def _write(path: str, secret: bytes) -> None:
    """Write the key by a rename, so that a crash never leaves part of it."""
    # A link to a file that does not exist reads as a missing file.
    check_private_file(path)
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    # The process id keeps two nodes that start at once from writing into one temporary file.
    partial = f"{path}.{os.getpid()}"
    with suppress(FileNotFoundError):
        os.unlink(partial)
    create_private_file(partial, f"{secret.hex()}\n".encode())
    os.replace(partial, path)
