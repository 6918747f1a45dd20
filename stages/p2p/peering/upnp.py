"""UPnP: the search for gateways (SSDP), their description, and the calls to them (SOAP), as bytes.

What a device sends is bounded and parsed without document types.
Source: https://openconnectivity.org/upnp-specs/UPnP-gw-WANIPConnection-v2-Service.pdf"""

import ipaddress
import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from rollup_node.stages.p2p.addresses.ip import IpAddress
from rollup_node.stages.p2p.discv5.enr import Endpoint
from rollup_node.stages.p2p.peering.nat_pmp import TransportProtocol

SSDP_GROUP = Endpoint(ipaddress.IPv4Address("239.255.255.250"), 1900)
MAX_RESPONSE_BYTES = 1 << 16
ONLY_PERMANENT_LEASES = 725
"""The error code of gateways that support mappings without expiry only."""
DEVICES = tuple(f"urn:schemas-upnp-org:device:InternetGatewayDevice:{version}" for version in (1, 2))
_SERVICE = re.compile(r"urn:schemas-upnp-org:service:(WANIPConnection:[12]|WANPPPConnection:1)")
_STATUS = re.compile(rb"HTTP/1\.[01] 200[ \r\n]")
_ENVELOPE = "http://schemas.xmlsoap.org/soap/envelope/"
_ENCODING = "http://schemas.xmlsoap.org/soap/encoding/"


class UpnpError(ValueError):
    """Not a valid response of a gateway."""


class SoapFault(UpnpError):
    """The gateway's own error."""

    def __init__(self, code: int, description: str) -> None:
        super().__init__(f"error {code}: {description[:100]}")
        self.code = code


class UpnpService(NamedTuple):
    """A gateway's service for port mappings: where its calls go, and its type."""

    control_url: str
    service_type: str


def search_request(device: str, target: Endpoint = SSDP_GROUP) -> bytes:
    """Return the SSDP datagram that searches for a device type."""
    lines = ("M-SEARCH * HTTP/1.1", f"HOST: {target}", 'MAN: "ssdp:discover"', "MX: 2", f"ST: {device}", "", "")
    return "\r\n".join(lines).encode()


def parse_search_response(response: bytes, sender: IpAddress) -> str:
    """Return the URL of the description; it must be at the address that the response came from. Raises UpnpError."""
    if not _STATUS.match(response) or len(response) > MAX_RESPONSE_BYTES:
        raise UpnpError("not a response to a search")
    for line in response.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"location":
            return _checked_url(value.strip().decode("utf-8", "replace"), sender)
    raise UpnpError("response without a location")


def parse_description(xml: bytes, url: str) -> UpnpService:
    """Return the service for port mappings, from the description at this URL. Raises UpnpError when there is none."""
    root = _parse(xml)
    base = next((_text(element) for element in root if _name(element) == "URLBase"), "") or url
    for element in root.iter():
        if _name(element) != "service":
            continue
        values = {_name(part): _text(part) for part in element}
        service = values.get("serviceType", "")
        if _SERVICE.fullmatch(service) and values.get("controlURL"):
            return UpnpService(_joined(base, values["controlURL"], url), service)
    raise UpnpError("the device has no service for port mappings")


def mapping_key(transport: TransportProtocol, port: int) -> dict[str, str]:
    """Return the values by which calls name the mapping of an external port."""
    return {"NewRemoteHost": "", "NewExternalPort": str(port), "NewProtocol": transport.name}


def mapping_values(transport: TransportProtocol, port: int, local_ip: IpAddress, lifetime: int) -> dict[str, str]:
    """Return the values that map an external port to the same one of ours for `lifetime` seconds (0: for ever)."""
    return mapping_key(transport, port) | {
        "NewInternalPort": str(port),
        "NewInternalClient": str(local_ip),
        "NewEnabled": "1",
        "NewPortMappingDescription": "rollup-node",
        "NewLeaseDuration": str(lifetime),
    }


def soap_request(service: UpnpService, action: str, values: Mapping[str, str]) -> tuple[dict[str, str], bytes]:
    """Return headers and body of a call."""
    inner = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in values.items())
    body = (
        f'<?xml version="1.0"?><s:Envelope xmlns:s="{_ENVELOPE}" s:encodingStyle="{_ENCODING}">'
        f'<s:Body><u:{action} xmlns:u="{service.service_type}">{inner}</u:{action}></s:Body></s:Envelope>'
    )
    headers = {"Content-Type": 'text/xml; charset="utf-8"', "SOAPAction": f'"{service.service_type}#{action}"'}
    return headers, body.encode()


def parse_response(xml: bytes) -> dict[str, str]:
    """Return the values in a call's response. Raises SoapFault when the call failed."""
    response = {_name(element): _text(element) for element in _parse(xml).iter()}
    if "Fault" in response:
        code = response.get("errorCode", "")
        number = int(code) if code.isascii() and code.isdigit() and len(code) <= 5 else 0
        raise SoapFault(number, response.get("errorDescription", ""))
    return response


def parse_external_ip(xml: bytes) -> IpAddress:
    """Return the external address in a call's response. Raises UpnpError."""
    text = parse_response(xml).get("NewExternalIPAddress", "")
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise UpnpError("response without an address") from None


def _joined(base: str, relative: str, described_at: str) -> str:
    """Return the absolute URL of a service, which must be at the same address as its description."""
    try:
        return _checked_url(urljoin(base, relative), ipaddress.ip_address(urlsplit(described_at).hostname or ""))
    except ValueError as error:
        raise UpnpError(str(error)) from None


def _checked_url(url: str, at: IpAddress) -> str:
    """Return the URL if it is plain HTTP at this address. Raises UpnpError otherwise."""
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
        raise UpnpError("the response is too long, has a document type, or is not of single bytes")
    try:
        return ElementTree.fromstring(xml)
    except (ElementTree.ParseError, ValueError, LookupError):
        raise UpnpError("the response is not XML") from None


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _text(element: ElementTree.Element) -> str:
    return (element.text or "").strip()
