"""The remote signer: op-signer's JSON-RPC over TLS, whose every signature is checked [SGN1, SGN2, SGN3, SGN7]."""

import base64
import os
import ssl
from typing import Any

import orjson

from rollup_node.stages.io.files.private_files import read_secret_file
from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure, endpoint_name, tls_reason
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.io.log.lasting_conditions import RepeatedWarnings
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.p2p.blocks.signing import DOMAIN, SigningError, signing_hash
from rollup_node.stages.p2p.config import SignerConfig
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex, to_hex
from rollup_node.stages.protocol.secp256k1 import SIGNATURE_SIZE, recover_address
from rollup_node.stages.protocol.texts import one_line
from rollup_node.stages.protocol.types import Address, Hash

MAX_FILE_BYTES = 1 << 20
WITHOUT_TLS = "or --signer.tls.enabled=false for a signer that needs no TLS"

log = Logger("p2p")


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


HEALTH_TIMEOUT = 3.0
SIGN_TIMEOUT = 5.0
MAX_ANSWER_BYTES = 64 << 10


class RemoteSigner:
    """Signs blocks by calls to `signer.endpoint`, one at a time over one connection, made at the first call."""

    option = "signer.address"

    def __init__(self, config: SignerConfig) -> None:
        self.address: Address = config.address
        self.name = endpoint_name(config.endpoint)
        headers = dict(config.headers)
        self._client = JsonRpcClient(
            config.endpoint,
            timeout=SIGN_TIMEOUT,
            headers=lambda: headers,
            max_concurrency=1,
            max_body=MAX_ANSWER_BYTES,
            tls=TlsFiles(config).context if config.tls_enabled else None,
        )

    async def version(self) -> str:
        """Return what `health_status` answers. Raises SigningError without an answer within 3 s [SGN1]."""
        answer = await self._call("health_status", timeout=HEALTH_TIMEOUT)
        if not isinstance(answer, str):
            raise SigningError(f"{self.name} does not answer health_status like a signer")
        return one_line(answer)

    async def sign_block(self, chain_id: int, hash_of_payload: Hash) -> bytes:
        """Return the signature if it is one of `address` [SGN3, SGN7]. Raises SigningError, after 5 s at most."""
        argument = {
            "domain": list(DOMAIN),
            # A plain number of up to 256 bits, which orjson does not write by itself.
            "chainId": orjson.Fragment(str(chain_id)),
            "payloadHash": base64.b64encode(hash_of_payload).decode(),
            "senderAddress": to_hex(self.address),
        }
        answer = await self._call("opsigner_signBlockPayload", argument, timeout=SIGN_TIMEOUT)
        try:
            signature = from_hex(answer)
        except HexError as error:
            raise SigningError(f"{self.name}: the signature is malformed, {error}") from None
        if len(signature) != SIGNATURE_SIZE:
            raise SigningError(f"{self.name}: the signature has {len(signature)} bytes, not {SIGNATURE_SIZE}")
        result = recover_address(signing_hash(chain_id, hash_of_payload), signature)
        if result is None:
            raise SigningError(f"{self.name}: the signature is invalid")
        if result != self.address:
            expected = to_hex(self.address)
            raise SigningError(
                f"{self.name}: the signature is one of {to_hex(result)}, not of signer.address {expected}"
            )
        return signature

    async def close(self) -> None:
        """Close the connection; another call opens a new one."""
        await self._client.close()

    async def _call(self, method: str, *params: Any, timeout: float) -> Any:
        try:
            return await self._client.call(method, *params, timeout=timeout)
        except RpcFailure as error:
            raise SigningError(f"{self.name}: {method}: {error}") from None
        except (EndpointError, TlsFileError) as error:
            raise SigningError(str(error)) from None
