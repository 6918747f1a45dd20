"""A remote signer like op-signer on the loopback interface, over HTTP or TLS, that can be made to fail."""

import asyncio
import base64
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from rollup_node.stages.p2p.blocks.signing import LocalSigner
from rollup_node.stages.p2p.config import SignerConfig
from tests.support.p2p.blocks import SIGNER
from tests.support.servers.certificates import certificate
from tests.support.servers.http_listener import app_for_every_path, listening

VERSION = "v1.2.3"


class TlsSetUp:
    """The files of a node and of its signer, in a directory; the authority signs both certificates."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = certificate("authority")
        (directory / "ca.crt").write_bytes(self.authority.pem)
        self._server_files = certificate("signer", self.authority).write(directory, "signer")
        certificate("node", self.authority).write(directory, "node")

    def config(self, endpoint: str = "https://127.0.0.1:1", **changes: Any) -> SignerConfig:
        """Return the configuration of the node."""
        paths = {f"tls_{option}": str(self.directory / name) for option, name in _FILES.items()}
        return SignerConfig(endpoint, SIGNER.address, **{**paths, **changes})

    def server_context(self, highest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
        """Return the context of a signer that requires a certificate of the authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.maximum_version = highest
        context.load_cert_chain(*self._server_files)
        context.load_verify_locations(self.directory / "ca.crt")
        context.verify_mode = ssl.CERT_REQUIRED
        return context


_FILES = {"ca": "ca.crt", "cert": "node.crt", "key": "node.key"}


class SignerServer:
    """The signer: `answer` replaces its result, `body` the body of its answer and `status` its HTTP status.

    It answers while `is_open` is set."""

    def __init__(self, key: LocalSigner = SIGNER) -> None:
        self.key = key
        self.answer: Any = None
        self.body: bytes | None = None
        self.status = 200
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.client_names: list[str] = []
        self.endpoint = ""
        self._transports: set[asyncio.Transport] = set()

    @property
    def calls(self) -> list[dict[str, Any]]:
        """What was called so far."""
        return [orjson.loads(body) for body in self.bodies]

    @contextlib.asynccontextmanager
    async def running(self, context: ssl.SSLContext | None = None, port: int = 0) -> AsyncIterator["SignerServer"]:
        """Serve on a port of its own, or on a given one."""
        async with listening(app_for_every_path(self._handle), port=port, context=context) as (self.endpoint,):
            try:
                yield self
            finally:
                self.is_open.set()
                # Without it, one of TLS stays open for an answer to its end after the loop has stopped.
                for transport in self._transports:
                    transport.abort()

    def config(self, **changes: Any) -> SignerConfig:
        """Return the configuration of a node that uses it without TLS."""
        defaults = {"endpoint": self.endpoint, "address": SIGNER.address, "tls_enabled": False}
        return SignerConfig(**{**defaults, **changes})

    async def _handle(self, request: web.Request) -> web.Response:
        if request.transport is not None:
            self._transports.add(request.transport)
        self.bodies.append(await request.read())
        self.headers.append(dict(request.headers))
        if (peer := request.get_extra_info("peercert")) is not None:
            self.client_names.extend(
                value for entry in peer["subject"] for name, value in entry if name == "commonName"
            )
        await self.is_open.wait()
        call = self.calls[-1]
        result = self.answer if self.answer is not None else await self._result(call)
        kind = "error" if isinstance(result, dict) and "code" in result else "result"
        body = self.body or orjson.dumps({"jsonrpc": "2.0", "id": call["id"], kind: result})
        return web.Response(body=body, status=self.status, content_type="application/json")

    async def _result(self, call: dict[str, Any]) -> str:
        if call["method"] == "health_status":
            return VERSION
        (argument,) = call["params"]
        assert bytes(argument["domain"]) == bytes(32)
        signature = await self.key.sign_block(argument["chainId"], base64.b64decode(argument["payloadHash"]))
        return f"0x{signature.hex()}"


@contextlib.contextmanager
def refusing_tls_server(context: ssl.SSLContext) -> Iterator[str]:
    """Yield the address of a server that sends the alert of a failed handshake, as servers do that are not asyncio's.

    Then it reads what the client may have sent by then: to close before would reset the connection, and may lose the
    alert."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, contextlib.suppress(OSError):
                        connection.settimeout(5)
                        secured = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
                        with contextlib.suppress(ssl.SSLError):
                            secured.do_handshake()
                            secured.recv(1)
                        with socket.socket(fileno=secured.detach()) as unsecured:
                            unsecured.settimeout(5)
                            unsecured.shutdown(socket.SHUT_WR)
                            while unsecured.recv(4096):
                                pass

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
