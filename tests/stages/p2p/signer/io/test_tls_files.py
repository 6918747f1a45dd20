"""The files of TLS to the remote signer: what is wrong with them, and that they are read again."""

import ssl
from pathlib import Path

import pytest

from rollup_node.stages.p2p.signer.io.tls_files import MAX_FILE_BYTES, TlsFileError, TlsFiles
from tests.support.engine.remote_signers import TlsSetUp
from tests.support.servers.certificates import certificate


def test_the_context_is_strict_and_stays_while_the_files_do(tmp_path: Path) -> None:
    files = TlsFiles(TlsSetUp(tmp_path).config())
    context = files.context()
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
    assert [get_ca_cert["subject"] for get_ca_cert in context.get_ca_certs()] == [((("commonName", "authority"),),)]
    assert files.context() is context


def test_certificate_and_key_are_read_again_and_the_authority_is_not(tmp_path: Path) -> None:
    setup = TlsSetUp(tmp_path)
    files = TlsFiles(setup.config())
    first = files.context()
    (tmp_path / "ca.crt").write_bytes(certificate("another").pem)
    assert files.context() is first
    certificate("renewed", setup.authority).write(tmp_path, "node")
    second = files.context()
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
