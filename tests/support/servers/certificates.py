"""Certificates of TLS servers and clients, by authorities of their own."""

import datetime
import ipaddress
import ssl
import tempfile
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

BEHIND_A_PROXY = "l1.corp.invalid"
"""A host that proxies alone reach."""


class Certificate(NamedTuple):
    """A certificate and its key, both in PEM form and for signing others."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.encrypted_key_pem(None)

    def encrypted_key_pem(self, password: bytes | None) -> bytes:
        """Return the key, encrypted if there is a password."""
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password)
        return self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)

    def write(self, directory: Path, name: str) -> tuple[str, str]:
        """Write both; the paths of certificate and key."""
        certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
        certificate.write_bytes(self.pem)
        key.write_bytes(self.key_pem)
        return str(certificate), str(key)


def certificate(
    name: str,
    issuer: Certificate | None = None,
    address: str = "127.0.0.1",
    valid_days: int = 1,
    host: str = "localhost",
) -> Certificate:
    """Return a certificate of an address and a host name, of its own authority if no issuer is given.

    It has expired if `valid_days` are negative."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    names = [
        *(x509.IPAddress(ipaddress.ip_address(ip)) for ip in (address, "::1")),
        x509.DNSName(host),
        x509.DNSName(BEHIND_A_PROXY),
    ]
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=9))
        .not_valid_after(now + datetime.timedelta(days=valid_days))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
    )
    return Certificate(builder.sign(key if issuer is None else issuer.key, hashes.SHA256()), key)


def server_context(served: Certificate) -> ssl.SSLContext:
    """Return the context of a server with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        context.load_cert_chain(*served.write(Path(folder), "server"))
    return context


def client_context(authority: Certificate) -> ssl.SSLContext:
    """Return the context of a client that trusts this authority alone."""
    return ssl.create_default_context(cadata=authority.pem.decode())
