"""UPnP: searches, descriptions and SOAP calls, as gateways send them, and malformed ones."""

import ipaddress
from xml.etree import ElementTree

import pytest

from rollup_node.stages.p2p.peering import upnp
from rollup_node.stages.p2p.peering.nat_pmp import TransportProtocol
from rollup_node.stages.p2p.peering.upnp import SoapFault, UpnpError, UpnpService

GATEWAY = ipaddress.ip_address("192.168.1.1")
URL = "http://192.168.1.1:5000/desc.xml"
SERVICE = "urn:schemas-upnp-org:service:WANIPConnection:1"
CONTROL = UpnpService("http://192.168.1.1:5000/ctl", SERVICE)
DESCRIPTION = f"""<?xml version="1.0"?>
<root xmlns="urn:schemas-upnp-org:device-1-0"><!-- a gateway -->
 <device><deviceList><device><serviceList>
  <service><serviceType>urn:schemas-upnp-org:service:Layer3Forwarding:1</serviceType><controlURL>/no</controlURL></service>
  <service><serviceType>{SERVICE}</serviceType><controlURL>/ctl</controlURL></service>
 </serviceList></device></deviceList></device>
</root>""".encode()


def search_response(location: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\nCACHE-CONTROL: max-age=120\r\nLocation: {location}\r\nST: x\r\n\r\n".encode()


def envelope(inner: str) -> bytes:
    return f'<s:Envelope xmlns:s="{upnp._ENVELOPE}"><s:Body>{inner}</s:Body></s:Envelope>'.encode()


def fault(code: int, description: str) -> bytes:
    return envelope(
        "<s:Fault><faultcode>s:Client</faultcode><detail><UPnPError xmlns='urn:schemas-upnp-org:control-1-0'>"
        f"<errorCode>{code}</errorCode><errorDescription>{description}</errorDescription></UPnPError></detail></s:Fault>"
    )


@pytest.mark.parametrize(
    "location",
    [
        "http://192.168.1.2:5000/desc.xml",
        "http://example.org/desc.xml",
        "https://192.168.1.1/",
        "file:///etc/passwd",
        "http://user@192.168.1.1/",
        "http://[",
        "",
    ],
)
def test_a_gateway_may_not_name_another_host(location: str) -> None:
    with pytest.raises(UpnpError):
        upnp.parse_search_response(search_response(location), GATEWAY)


def test_a_description() -> None:
    assert upnp.parse_description(DESCRIPTION, URL) == CONTROL
    based = DESCRIPTION.replace(
        b"<device><deviceList>", b"<URLBase>http://192.168.1.1:81/a/</URLBase><device><deviceList>"
    )
    assert upnp.parse_description(based, URL).control_url == "http://192.168.1.1:81/ctl"


@pytest.mark.parametrize(
    "change",
    [
        (b"/ctl", b"http://192.168.1.9/ctl"),
        (b"WANIPConnection:1", b"WANIPConnection:9"),
        (b"<root", b"<!DOCTYPE x [<!ENTITY a 'aaaa'>]><root"),
        (b"</root>", b""),
        (b"/ctl", b"/" + b"c" * (1 << 16)),
    ],
)
def test_malformed_descriptions_are_rejected(change: tuple[bytes, bytes]) -> None:
    with pytest.raises(UpnpError):
        upnp.parse_description(DESCRIPTION.replace(*change), URL)


def test_calls_are_soap() -> None:
    values = upnp.mapping_values(TransportProtocol.TCP, 9222, ipaddress.ip_address("192.168.1.7"), 1200)
    headers, raw = upnp.soap_request(CONTROL, "AddPortMapping", values)
    assert headers["SOAPAction"] == f'"{SERVICE}#AddPortMapping"'
    body = ElementTree.fromstring(raw)[0][0]
    assert body.tag == f"{{{SERVICE}}}AddPortMapping"
    assert [(part.tag, part.text) for part in body] == [
        ("NewRemoteHost", None),
        ("NewExternalPort", "9222"),
        ("NewProtocol", "TCP"),
        ("NewInternalPort", "9222"),
        ("NewInternalClient", "192.168.1.7"),
        ("NewEnabled", "1"),
        ("NewPortMappingDescription", "rollup-node"),
        ("NewLeaseDuration", "1200"),
    ]


def test_responses_to_calls() -> None:
    response = envelope(
        f"<u:GetExternalIPAddressResponse xmlns:u='{SERVICE}'><NewExternalIPAddress>8.8.4.4"
        "</NewExternalIPAddress></u:GetExternalIPAddressResponse>"
    )
    assert upnp.parse_external_ip(response) == ipaddress.ip_address("8.8.4.4")
    with pytest.raises(UpnpError, match="without an address"):
        upnp.parse_external_ip(envelope("<u/>"))
    with pytest.raises(SoapFault, match="error 718: Conflict") as caught:
        upnp.parse_response(fault(718, "Conflict"))
    assert caught.value.code == 718
