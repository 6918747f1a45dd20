"""TLS to the remote signer: certificate and key of this node are read again when their files change [SGN2]."""

import os
import ssl

from rollup_node.stages.io.files.private_files import read_secret_file
from rollup_node.stages.io.http.endpoint_errors import tls_reason
from rollup_node.stages.io.log.lasting_conditions import RepeatedWarnings
from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.p2p.config import SignerConfig

MAX_FILE_BYTES = 1 << 20
WITHOUT_TLS = "or --signer.tls.enabled=false for a signer that needs no TLS"

log = get_logger("p2p")


class TlsFileError(Exception):
    """A file of TLS cannot be used; the text names it and its option."""


_Version = tuple[int, int, int]
"""Time, size and inode: what changes when a file is written or replaced."""


class TlsFiles:
    """The files of `signer.tls.*`; nothing is read before `context` is called."""

    def __init__(self, config: SignerConfig) -> None:
        self._config = config
        self._pair = ((config.tls_cert, "signer.tls.cert"), (config.tls_key, "signer.tls.key"))
        self._authorities: str | None = None
        self._context: ssl.SSLContext | None = None
        self._versions: tuple[_Version, ...] = ()
        self._warnings = RepeatedWarnings(log)

    def context(self) -> ssl.SSLContext:
        """Return the context of a new connection, the previous one while files do not fit. Raises TlsFileError."""
        try:
            versions = tuple(_version(path, option) for path, option in self._pair)
            if self._context is None or versions != self._versions:
                is_reload, self._context = self._context is not None, self._load()
                self._versions = versions
                if is_reload:
                    log.info("read the changed certificate for the remote signer", file=self._config.tls_cert)
        except TlsFileError as error:
            if self._context is None:
                raise
            message = "the changed certificate for the remote signer cannot be used, keeping the previous one"
            self._warnings.warn("reload", message, code=Code.TLS_CERTIFICATE.text, error=str(error))
        return self._context

    def _load(self) -> ssl.SSLContext:
        """Return a context of the files as they are now, but of the CA as it was first."""
        config = self._config
        if self._authorities is None:
            self._authorities = _read(config.tls_ca, "signer.tls.ca").decode("ascii", "ignore")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        try:
            context.load_verify_locations(cadata=self._authorities)
        except (ssl.SSLError, ValueError):
            text = f"signer.tls.ca {config.tls_ca} holds no certificate in PEM form: give the CA of the signer"
            raise TlsFileError(f"{text}, {WITHOUT_TLS}") from None
        for path, option in self._pair:
            _read(path, option)
        try:
            # Without a function for the password OpenSSL asks the terminal for it.
            context.load_cert_chain(config.tls_cert, config.tls_key, password=lambda: b"")
        except (OSError, ValueError) as error:
            reason = tls_reason(error) if isinstance(error, ssl.SSLError) else str(error)
            raise TlsFileError(
                f"signer.tls.cert {config.tls_cert} and signer.tls.key {config.tls_key} are no certificate with its"
                f" unencrypted key in PEM form ({reason}): give a pair that the signer accepts"
            ) from None
        return context


def _version(path: str, option: str) -> _Version:
    try:
        result = os.stat(path)
    except (OSError, ValueError) as error:
        raise _unreadable(path, option, error) from None
    return result.st_mtime_ns, result.st_size, result.st_ino


def _read(path: str, option: str) -> bytes:
    try:
        content = read_secret_file(path, MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise _unreadable(path, option, error) from None
    if len(content) > MAX_FILE_BYTES:
        raise TlsFileError(f"{option} {path} is longer than {MAX_FILE_BYTES} bytes: give a file in PEM form")
    return content


def _unreadable(path: str, option: str, error: Exception) -> TlsFileError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return TlsFileError(f"cannot read {option} {path or '(empty)'} ({reason}): give a readable file, {WITHOUT_TLS}")
