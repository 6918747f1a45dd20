"""Bootnodes as texts: records, and `enode://` URLs, whose host may be a name; those of public networks [DSC10]."""

import ipaddress
import re
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from rollup_node.stages.p2p.addresses.ip import IpAddress, IpAddressError, parse_ip
from rollup_node.stages.p2p.addresses.peer_id import node_id
from rollup_node.stages.p2p.discv5.enr import PREFIX, Contact, Endpoint, Enr, parse_enr
from rollup_node.stages.protocol import secp256k1

PUBLIC_BOOTNODES = (
    "enode://869d07b5932f17e8490990f75a3f94195e9504ddb6b85f7189e5a9c0a8fff8b00aecf6f3ac450ecba6cdabdb5858788a"
    "94bde2b613e0f2d82e9b395355f76d1a@34.65.67.101:30305",
    "enode://2d4e7e9d48f4dd4efe9342706dd1b0024681bd4c3300d021f86fc75eab7865d4e0cbec6fbc883f011cfd6a57423e7e2f"
    "6e104baad2b744c3cafaec6bc7dc92c1@34.65.43.171:30305",
    "enr:-J24QNz9lbrKbN4iSmmjtnr7SjUMk4zB7f1krHZcTZx-JRKZd0kA2gjufUROD6T3sOWDVDnFJRvqBBo62zuF-hYCohOGAYiOoEyE"
    "gmlkgnY0gmlwhAPniryHb3BzdGFja4OFQgCJc2VjcDI1NmsxoQKNVFlCxh_B-716tTs-h1vMzZkSs1FTu_OYTNjgufplG4N0Y3CCJAaD"
    "dWRwgiQG",
    "enr:-J24QH-f1wt99sfpHy4c0QJM-NfmsIfmlLAMMcgZCUEgKG_BBYFc6FwYgaMJMQN5dsRBJApIok0jFn-9CS842lGpLmqGAYiOoDRA"
    "gmlkgnY0gmlwhLhIgb2Hb3BzdGFja4OFQgCJc2VjcDI1NmsxoQJ9FTIv8B9myn1MWaC_2lJ-sMoeCDkusCsk4BYHjjCq04N0Y3CCJAaD"
    "dWRwgiQG",
    "enr:-J24QDXyyxvQYsd0yfsN0cRr1lZ1N11zGTplMNlW4xNEc7LkPXh0NAJ9iSOVdRO95GPYAIc6xmyoCCG6_0JxdL3a0zaGAYiOoAjF"
    "gmlkgnY0gmlwhAPckbGHb3BzdGFja4OFQgCJc2VjcDI1NmsxoQJwoS7tzwxqXSyFL7g0JM-KWVbgvjfB8JA__T7yY_cYboN0Y3CCJAaD"
    "dWRwgiQG",
    "enr:-J24QHmGyBwUZXIcsGYMaUqGGSl4CFdx9Tozu-vQCn5bHIQbR7On7dZbU61vYvfrJr30t0iahSqhc64J46MnUO2JvQaGAYiOoCKK"
    "gmlkgnY0gmlwhAPnCzSHb3BzdGFja4OFQgCJc2VjcDI1NmsxoQINc4fSijfbNIiGhcgvwjsjxVFJHUstK9L1T8OTKUjgloN0Y3CCJAaD"
    "dWRwgiQG",
    "enr:-J24QG3ypT4xSu0gjb5PABCmVxZqBjVw9ca7pvsI8jl4KATYAnxBmfkaIuEqy9sKvDHKuNCsy57WwK9wTt2aQgcaDDyGAYiOoGAX"
    "gmlkgnY0gmlwhDbGmZaHb3BzdGFja4OFQgCJc2VjcDI1NmsxoQIeAK_--tcLEiu7HvoUlbV52MspE0uCocsx1f_rYvRenIN0Y3CCJAaD"
    "dWRwgiQG",
    "enode://d25ce99435982b04d60c4b41ba256b84b888626db7bee45a9419382300fbe907359ae5ef250346785bff8d3b9d07cd3e"
    "017a27e2ee3cfda3bcbb0ba762ac9674@bootnode.conduit.xyz:0?discport=30301",
    "enode://2d4e7e9d48f4dd4efe9342706dd1b0024681bd4c3300d021f86fc75eab7865d4e0cbec6fbc883f011cfd6a57423e7e2f"
    "6e104baad2b744c3cafaec6bc7dc92c1@34.65.43.171:0?discport=30305",
    "enode://9d7a3efefe442351217e73b3a593bcb8efffb55b4807699972145324eab5e6b382152f8d24f6301baebbfb5ecd4127bd"
    "3faab2842c04cd432bdf50ba092f6645@34.65.109.126:0?discport=30305",
    "enode://010800c668896c100e8d64abc388ac5a22a8134a96fb0107c5d0c56d79ba7225c12d9e9e012d3cc0ee2701d7f63dd45f"
    "8abf0bbcf6f3c541f91742b1d7a99355@3.134.214.169:9222",
    "enode://b97abcc7011d06299c4bc44742be4a0e631a1a2925a2992adcfe80ed86bec5ff0ddf1b90d015f2dbb5e305560e12c987"
    "3b2dad72d84d131ac4be9f2a4c74b763@52.14.30.39:9222",
    "enode://760230a662610620d6d2e4ad846a6dccbceaa4556872dfacf9cdca7c2f5b49e4c66e822ed2e8813debb5fb7391f0519b"
    "8d075e565a2a89c79a9e4092e81b3e5b@3.148.100.173:9222",
)
"""Run by OP Labs, Base, Conduit and Uniswap Labs; the list is op-node's."""


def choose_bootnodes(texts: tuple[str, ...], *, network: str | None, rollup_config: str | None) -> tuple[str, ...]:
    """Return those of `p2p.bootnodes`, else the public ones if only `network` names the chain [OPT25]."""
    if texts:
        return texts
    return PUBLIC_BOOTNODES if network and not rollup_config else ()


_KEY = re.compile(r"[0-9a-fA-F]{128}")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_MAX_URL_CHARACTERS = 600


class BootnodeError(ValueError):
    """Not a bootnode; the text says why."""


class Enode(NamedTuple):
    """A node by its URL: compressed public key, host (IP address or name), UDP port."""

    public_key: bytes
    host: str
    port: int

    @property
    def address(self) -> IpAddress | None:
        """The IP address; None for a host name."""
        try:
            return parse_ip(self.host)
        except IpAddressError:
            return None

    def contact(self, address: IpAddress) -> Contact:
        """Return the node's contact, its host being at this address."""
        return Contact(node_id(self.public_key), self.public_key, Endpoint(address, self.port))


def parse_bootnode(text: str) -> Enr | Enode:
    """Parse a bootnode. Raises BootnodeError."""
    text = text.strip()
    try:
        return parse_enr(text) if text.startswith(PREFIX) else _parse_enode(text)
    except ValueError as error:
        raise BootnodeError(f"bootnode {text[:60]!r}: {error} (p2p.bootnodes)") from None


def _parse_enode(text: str) -> Enode:
    """Parse `enode://<128 hex digits>@host:port?discport=port`; the UDP port is `discport`, else `port`."""
    if len(text) > _MAX_URL_CHARACTERS or not text.startswith("enode://"):
        raise BootnodeError("expected enr:... or enode://...")
    url = urlsplit(text)
    if not _KEY.fullmatch(url.username or "") or not url.hostname:
        raise BootnodeError("expected enode://<128 hex digits>@<host>:<port>")
    port = url.port or 0
    value = parse_qs(url.query).get("discport")
    if value is not None:
        if not (value[0].isascii() and value[0].isdigit()) or len(value[0]) > 5:
            raise BootnodeError("discport is not a port")
        port = int(value[0])
    if not 0 < port <= 0xFFFF:
        raise BootnodeError("no UDP port from 1 to 65535")
    return Enode(secp256k1.convert_point(b"\x04" + bytes.fromhex(url.username or "")), _host(url.hostname), port)


def _host(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not _NAME.fullmatch(host):
        raise BootnodeError("neither an IP address nor a host name")
    return host
