"""The files of TLS to the remote signer: what is wrong with them, and that they are read again. The remote
signer over real HTTP and TLS: op-node's wire form, and answers that are refused."""

import base64
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.io.log import logger
from rollup_node.stages.p2p.blocks.signing import LocalSigner, SigningError, signing_hash
from rollup_node.stages.p2p.signer.io import remote_signer
from rollup_node.stages.p2p.signer.io.remote_signer import (
    MAX_ANSWER_BYTES,
    MAX_FILE_BYTES,
    RemoteSigner,
    TlsFileError,
    TlsFiles,
)
from rollup_node.stages.protocol.secp256k1 import recover_address
from tests.support.engine.remote_signers import VERSION, SignerServer, TlsSetUp, refusing_tls_server
from tests.support.p2p.blocks import SIGNER
from tests.support.servers.certificates import certificate


def test_the_context_is_strict_and_stays_while_the_files_do(tmp_path: Path) -> None:
    files = TlsFiles(TlsSetUp(tmp_path).config())
    context = files.context()
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
    assert [get_ca_cert["subject"] for get_ca_cert in context.get_ca_certs()] == [((("commonName", "authority"),),)]
    assert files.context() is context


def test_certificate_and_key_are_read_again_and_the_authority_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logger, "_configuration", logger.configuration()._replace(level=logger.Level.INFO))
    setup = TlsSetUp(tmp_path)
    files = TlsFiles(setup.config())
    first = files.context()
    (tmp_path / "ca.crt").write_bytes(certificate("another").pem)
    assert files.context() is first and capfd.readouterr().err == ""
    certificate("renewed", setup.authority).write(tmp_path, "node")
    second = files.context()
    assert "read the changed certificate for the remote signer" in capfd.readouterr().err
    assert second is not first and second.get_ca_certs() == first.get_ca_certs()


@pytest.mark.parametrize("content", [None, b"", b"-----BEGIN CERTIFICATE-----\nMII"])
@pytest.mark.parametrize("name", ["node.crt", "node.key"])
def test_a_pair_in_the_middle_of_a_change_keeps_the_previous_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, content: bytes | None
) -> None:
    setup = TlsSetUp(tmp_path)
    files = TlsFiles(setup.config())
    first = files.context()
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    assert files.context() is first and files.context() is first
    assert capfd.readouterr().err.count("cannot be used, keeping the previous one") == 1
    certificate("renewed", setup.authority).write(tmp_path, "node")
    assert files.context() is not first


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("ca.crt", None, "cannot read signer.tls.ca "),
        ("ca.crt", b"", "holds no certificate in PEM form"),
        ("ca.crt", b"\xff\x00 no certificate", "holds no certificate in PEM form"),
        ("ca.crt", b"x" * (MAX_FILE_BYTES + 1), f"is longer than {MAX_FILE_BYTES} bytes"),
        ("node.crt", None, "cannot read signer.tls.cert "),
        ("node.crt", b"no certificate", "are no certificate with its unencrypted key in PEM form"),
        ("node.key", None, "cannot read signer.tls.key "),
        ("node.key", b"no key", "are no certificate with its unencrypted key in PEM form"),
        ("node.key", certificate("other").key_pem, "key values mismatch"),
        ("node.key", certificate("other").encrypted_key_pem(b"secret"), "unencrypted key"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, name: str, content: bytes | None, text: str) -> None:
    config = TlsSetUp(tmp_path).config()
    path = tmp_path / name
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(TlsFileError) as caught:
        TlsFiles(config).context()
    assert text in str(caught.value) and str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_folder_and_a_file_of_others_are_refused(tmp_path: Path) -> None:
    setup = TlsSetUp(tmp_path)
    with pytest.raises(TlsFileError, match=r"signer\.tls\.ca"):
        TlsFiles(setup.config(tls_ca=str(tmp_path))).context()
    (tmp_path / "node.key").chmod(0o666)
    with pytest.raises(TlsFileError, match="others may write to it"):
        TlsFiles(setup.config()).context()


DIGEST = b"\xd1" * 32
CHAIN_ID = 10


Opened = Callable[[RemoteSigner], RemoteSigner]


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    """Yield a function that passes a client on and has it closed at the end."""
    async with contextlib.AsyncExitStack() as stack:

        def closed_at_the_end(signer: RemoteSigner) -> RemoteSigner:
            stack.push_async_callback(signer.close)
            return signer

        yield closed_at_the_end


@pytest.fixture
async def server() -> AsyncIterator[SignerServer]:
    """Yield a server without TLS."""
    async with SignerServer().running() as running:
        yield running


@pytest.fixture
def signer(server: SignerServer, opened: Opened) -> RemoteSigner:
    return opened(RemoteSigner(server.config()))


@pytest.fixture
def files(tmp_path: Path) -> TlsSetUp:
    return TlsSetUp(tmp_path)


async def error_of(signer: RemoteSigner) -> str:
    with pytest.raises(SigningError) as caught:
        await signer.sign_block(CHAIN_ID, DIGEST)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 1000
    return str(caught.value)


@pytest.mark.option("signer.header")
async def test_the_wire_form_is_that_of_op_node(server: SignerServer, opened: Opened) -> None:
    signer = opened(RemoteSigner(server.config(headers=(("X-Key", "a,b=c"),))))
    signature = await signer.sign_block(CHAIN_ID, DIGEST)
    assert recover_address(signing_hash(CHAIN_ID, DIGEST), signature) == SIGNER.address
    zeros = ",".join(["0"] * 32)
    argument = (
        f'{{"domain":[{zeros}],"chainId":10,"payloadHash":"{base64.b64encode(DIGEST).decode()}",'
        f'"senderAddress":"0x{SIGNER.address.hex()}"}}'
    )
    assert server.bodies == [
        f'{{"jsonrpc":"2.0","id":1,"method":"opsigner_signBlockPayload","params":[{argument}]}}'.encode()
    ]
    assert server.headers[0]["X-Key"] == "a,b=c" and server.headers[0]["Content-Type"] == "application/json"


async def test_a_chain_id_may_have_256_bits(server: SignerServer, signer: RemoteSigner) -> None:
    server.answer = "0x"
    with pytest.raises(SigningError, match="has 0 bytes"):
        await signer.sign_block((1 << 256) - 1, DIGEST)
    assert b'"chainId":%d,' % ((1 << 256) - 1) in server.bodies[0]


async def test_health_status(server: SignerServer, signer: RemoteSigner) -> None:
    assert await signer.version() == VERSION
    assert server.calls[0]["method"] == "health_status" and server.calls[0]["params"] == []
    server.answer = {"status": "ok"}
    with pytest.raises(SigningError, match="does not answer health_status like a signer"):
        await signer.version()


async def test_a_slow_health_status_ends_in_bounded_time(
    server: SignerServer, signer: RemoteSigner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_signer, "HEALTH_TIMEOUT", 0.2)
    server.is_open.clear()
    with pytest.raises(SigningError, match=r"no answer within 0\.2 s"):
        await signer.version()


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("0x" + "11" * 64, "the signature has 64 bytes, not 65"),
        ("0x" + "11" * 66, "the signature has 66 bytes, not 65"),
        ("11" * 65, "the signature is malformed, expected 0x-prefixed hex"),
        ("0xzz", "the signature is malformed"),
        (5, "the signature is malformed"),
        (["0x"], "the signature is malformed"),
        ("0x" + "ff" * 64 + "00", "the signature is invalid"),
        ("0x" + "11" * 64 + "1b", "the signature is invalid"),
        ({"code": -32000, "message": "no such\nkey"}, "opsigner_signBlockPayload: error -32000: no such key"),
    ],
)
async def test_a_malformed_signature_is_refused(
    server: SignerServer, signer: RemoteSigner, answer: Any, text: str
) -> None:
    server.answer = answer
    assert text in await error_of(signer)


@pytest.mark.fault("F53")
async def test_a_signature_of_another_key_is_refused(server: SignerServer, signer: RemoteSigner) -> None:
    server.key = LocalSigner(b"\x33" * 32)
    other = server.key.address.hex()
    assert f"is one of 0x{other}, not of signer.address 0x{SIGNER.address.hex()}" in await error_of(signer)


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (b'{"result":"' + b"0" * MAX_ANSWER_BYTES + b'"}', 200, f"longer than {MAX_ANSWER_BYTES} bytes"),
        (b"<html>", 200, "JSON"),
        (b"[" * 50_000, 200, "127.0.0.1"),
        (b"denied", 403, "HTTP status 403: denied"),
        (b"x" * 60_000, 500, "HTTP status 500"),
    ],
)
async def test_an_answer_of_any_size_and_shape_is_an_error(
    server: SignerServer, signer: RemoteSigner, body: bytes, status: int, text: str
) -> None:
    server.body, server.status = body, status
    assert text in await error_of(signer)
    server.body, server.status = None, 200
    await signer.sign_block(CHAIN_ID, DIGEST)


@pytest.mark.fault("F53")
async def test_a_slow_signer_ends_in_bounded_time(
    server: SignerServer, signer: RemoteSigner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_signer, "SIGN_TIMEOUT", 0.2)
    server.is_open.clear()
    started = time.monotonic()
    assert "no answer within 0.2 s" in await error_of(signer)
    assert time.monotonic() - started < 5
    server.is_open.set()
    await signer.sign_block(CHAIN_ID, DIGEST)


@pytest.mark.fault("F53")
async def test_a_signer_that_is_gone_and_back(opened: Opened, tmp_path: Path) -> None:
    server = SignerServer()
    async with server.running():
        signer = opened(RemoteSigner(server.config()))
        await signer.sign_block(CHAIN_ID, DIGEST)
        port = int(server.endpoint.rpartition(":")[2])
    await error_of(signer)
    assert "cannot connect (Connection refused)" in await error_of(signer)
    async with server.running(port=port):
        await signer.sign_block(CHAIN_ID, DIGEST)


# --- TLS -------------------------------------------------------------------------------------------------------------


@pytest.mark.option("signer.tls.ca")
async def test_both_sides_are_authenticated(opened: Opened, files: TlsSetUp, tmp_path: Path) -> None:
    async with SignerServer().running(files.server_context()) as server:
        signer = opened(RemoteSigner(files.config(server.endpoint)))
        await signer.sign_block(CHAIN_ID, DIGEST)
        assert server.client_names == ["node"]
        other = certificate("other authority")
        (tmp_path / "other.crt").write_bytes(other.pem)
        signer = opened(RemoteSigner(files.config(server.endpoint, tls_ca=str(tmp_path / "other.crt"))))
        assert "TLS: certificate not accepted, " in await error_of(signer)
        signer = opened(RemoteSigner(server.config()))
        assert "TLS: certificate not accepted, " in await error_of(signer), "the system's roots do not know it"


async def test_a_certificate_of_another_host_is_refused(opened: Opened, files: TlsSetUp, tmp_path: Path) -> None:
    context = files.server_context()
    context.load_cert_chain(*certificate("signer", files.authority, "127.0.0.9").write(tmp_path, "elsewhere"))
    async with SignerServer().running(context) as server:
        signer = opened(RemoteSigner(files.config(server.endpoint)))
        assert "IP address mismatch" in await error_of(signer)


@pytest.mark.option("signer.tls.cert", "signer.tls.key")
async def test_a_client_certificate_that_the_signer_refuses(opened: Opened, files: TlsSetUp, tmp_path: Path) -> None:
    cert, key = certificate("stranger").write(tmp_path, "stranger")
    with refusing_tls_server(files.server_context()) as endpoint:
        signer = opened(RemoteSigner(files.config(endpoint, tls_cert=cert, tls_key=key)))
        assert "TLS: tlsv1 alert unknown ca" in await error_of(signer)


async def test_tls_before_1_3_is_refused(opened: Opened, files: TlsSetUp) -> None:
    with refusing_tls_server(files.server_context(ssl.TLSVersion.TLSv1_2)) as endpoint:
        signer = opened(RemoteSigner(files.config(endpoint)))
        assert "TLS: tlsv1 alert protocol version" in await error_of(signer)


async def test_a_changed_certificate_is_used_without_a_restart(opened: Opened, files: TlsSetUp, tmp_path: Path) -> None:
    async with SignerServer().running(files.server_context()) as server:
        signer = opened(RemoteSigner(files.config(server.endpoint)))
        await signer.sign_block(CHAIN_ID, DIGEST)
        renewed = certificate("renewed", files.authority)
        (tmp_path / "node.crt").write_bytes(renewed.pem)
        await signer.sign_block(CHAIN_ID, DIGEST)
        (tmp_path / "node.key").write_bytes(renewed.key_pem)
        await signer.sign_block(CHAIN_ID, DIGEST)
        assert server.client_names == ["node", "node", "renewed"], "the half-written pair is not used"


async def test_unreadable_files_are_an_error_of_each_call(opened: Opened, files: TlsSetUp, tmp_path: Path) -> None:
    (tmp_path / "node.key").rename(tmp_path / "elsewhere")
    async with SignerServer().running(files.server_context()) as server:
        signer = opened(RemoteSigner(files.config(server.endpoint)))
        assert "cannot read signer.tls.key" in await error_of(signer)
        (tmp_path / "elsewhere").rename(tmp_path / "node.key")
        await signer.sign_block(CHAIN_ID, DIGEST)
