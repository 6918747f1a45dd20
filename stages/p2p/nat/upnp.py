"""UPnP: how a router is searched for (SSDP), what it offers (its description), and the calls to it (SOAP), as bytes and
back. What a device sends is bounded, and read without document types."""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from rollup_node.stages.p2p.addresses.ip import IpAddress
from rollup_node.stages.p2p.nat.nat_pmp import TransportProtocol

SSDP_GROUP = "239.255.255.250"
SSDP_PORT = 1900
MAX_RESPONSE_BYTES = 1 << 16
ONLY_PERMANENT_LEASES = 725
"""The error of routers that forward ports for good or not at all."""
DEVICES = tuple(f"urn:schemas-upnp-org:device:InternetGatewayDevice:{version}" for version in (1, 2))
_SERVICE = re.compile(r"urn:schemas-upnp-org:service:(WANIPConnection:[12]|WANPPPConnection:1)")
_STATUS = re.compile(rb"HTTP/1\.[01] 200[ \r\n]")
_ENVELOPE = "http://schemas.xmlsoap.org/soap/envelope/"
_ENCODING = "http://schemas.xmlsoap.org/soap/encoding/"


class UpnpError(ValueError):
    """Not what a router answers."""


class SoapFault(UpnpError):
    """The router's own error."""

    def __init__(self, code: int, description: str) -> None:
        super().__init__(f"error {code}: {description[:100]}")
        self.code = code


class UpnpService(NamedTuple):
    """Where the calls go, and of which service they are."""

    control_url: str
    service_type: str


class SoapCall(NamedTuple):
    """A call as an HTTP POST."""

    url: str
    headers: Mapping[str, str]
    body: bytes


def search_request(device: str, host: str = SSDP_GROUP, port: int = SSDP_PORT) -> bytes:
    """The datagram that asks routers to come forward."""
    lines = ("M-SEARCH * HTTP/1.1", f"HOST: {host}:{port}", 'MAN: "ssdp:discover"', "MX: 2", f"ST: {device}", "", "")
    return "\r\n".join(lines).encode()


def parse_search_response(answer: bytes, sender: IpAddress) -> str:
    """The URL of the description in an answer; it must be at the address that the answer came from."""
    if not _STATUS.match(answer) or len(answer) > MAX_RESPONSE_BYTES:
        raise UpnpError("not an answer to a search")
    for line in answer.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"location":
            return _checked_url(value.strip().decode("utf-8", "replace"), sender)
    raise UpnpError("answer without a location")


def parse_description(xml: bytes, url: str) -> UpnpService:
    """The service by which ports are forwarded, from the description at this URL."""
    root = _parse(xml)
    base = next((_text(element) for element in root if _name(element) == "URLBase"), "") or url
    for element in root.iter():
        if _name(element) != "service":
            continue
        values = {_name(part): _text(part) for part in element}
        service = values.get("serviceType", "")
        if _SERVICE.fullmatch(service) and values.get("controlURL"):
            return UpnpService(_joined(base, values["controlURL"], url), service)
    raise UpnpError("a device that forwards no ports")


def external_ip_call(control: UpnpService) -> SoapCall:
    """Asks for the outer address."""
    return _call(control, "GetExternalIPAddress", ())


def add_mapping_call(
    control: UpnpService, transport: TransportProtocol, *, internal: tuple[IpAddress, int], external: int, lifetime: int
) -> SoapCall:
    """Asks to forward an outer port to us, for `lifetime` seconds (0: for good)."""
    values = (
        *_which(transport, external),
        ("NewInternalPort", str(internal[1])),
        ("NewInternalClient", str(internal[0])),
        ("NewEnabled", "1"),
        ("NewPortMappingDescription", "rollup-node"),
        ("NewLeaseDuration", str(lifetime)),
    )
    return _call(control, "AddPortMapping", values)


def delete_mapping_call(control: UpnpService, transport: TransportProtocol, external: int) -> SoapCall:
    """Asks to forward a port no longer."""
    return _call(control, "DeletePortMapping", _which(transport, external))


def parse_response(xml: bytes) -> dict[str, str]:
    """The values that a call has given; SoapFault if it failed there."""
    found = {_name(element): _text(element) for element in _parse(xml).iter()}
    if "Fault" in found:
        code = found.get("errorCode", "")
        number = int(code) if code.isascii() and code.isdigit() and len(code) <= 5 else 0
        raise SoapFault(number, found.get("errorDescription", ""))
    return found


def parse_external_ip(xml: bytes) -> IpAddress:
    """The outer address that a call has given."""
    text = parse_response(xml).get("NewExternalIPAddress", "")
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise UpnpError("answer without an address") from None


def _which(transport: TransportProtocol, external: int) -> tuple[tuple[str, str], ...]:
    return (("NewRemoteHost", ""), ("NewExternalPort", str(external)), ("NewProtocol", transport.name))


def _call(control: UpnpService, action: str, values: Iterable[tuple[str, str]]) -> SoapCall:
    inner = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in values)
    body = (
        f'<?xml version="1.0"?><s:Envelope xmlns:s="{_ENVELOPE}" s:encodingStyle="{_ENCODING}">'
        f'<s:Body><u:{action} xmlns:u="{control.service_type}">{inner}</u:{action}></s:Body></s:Envelope>'
    )
    headers = {"Content-Type": 'text/xml; charset="utf-8"', "SOAPAction": f'"{control.service_type}#{action}"'}
    return SoapCall(control.control_url, headers, body.encode())


def _joined(base: str, relative: str, described_at: str) -> str:
    """The URL that a description names, which must be at the same address as the description itself."""
    try:
        return _checked_url(urljoin(base, relative), ipaddress.ip_address(urlsplit(described_at).hostname or ""))
    except ValueError as error:
        raise UpnpError(str(error)) from None


def _checked_url(url: str, at: IpAddress) -> str:
    """The same URL if it is plain HTTP at this address."""
    try:
        parts = urlsplit(url)
        is_there = parts.scheme == "http" and ipaddress.ip_address(parts.hostname or "") == at
        is_there = is_there and parts.port != 0 and not parts.username
    except ValueError:
        is_there = False
    if not is_there or len(url) > 1000 or not url.isprintable() or not url.isascii():
        raise UpnpError(f"URL {url[:80]!r} that is not at {at}")
    return url


def _parse(xml: bytes) -> ElementTree.Element:
    if len(xml) > MAX_RESPONSE_BYTES or b"\0" in xml or b"<!" in xml.replace(b"<!--", b""):
        raise UpnpError("an answer that is too long, has a document type, or is not of single bytes")
    try:
        return ElementTree.fromstring(xml)
    except (ElementTree.ParseError, ValueError, LookupError):
        raise UpnpError("an answer that is not XML") from None


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _text(element: ElementTree.Element) -> str:
    return (element.text or "").strip()
