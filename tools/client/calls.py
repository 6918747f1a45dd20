"""What the methods of the modules are made of: parameters as JSON, results as types."""

from base64 import b64encode
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any

from web3.method import Method
from web3.types import RPCEndpoint

from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.client.results import convert

IpAddress = IPv4Address | IPv6Address | str
IpNetwork = IPv4Network | IPv6Network


def call(name: str, shape: Any) -> Method[Any]:
    """The method of a module that calls `name` and returns its result as this type."""

    def formatter(*_: Any) -> Any:
        return partial(convert, shape=shape)

    return Method(RPCEndpoint(name), mungers=[_parameters], result_formatters=formatter)


def _parameters(_module: Any, *given: Any) -> list[Any]:
    return [_parameter(each) for each in given]


def _parameter(value: Any) -> Any:
    """A parameter as the node reads it: bytes and numbers in hex, networks with their mask in base64 [RPC76]."""
    if isinstance(value, bytes):
        return to_hex(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return hex(value)
    if isinstance(value, IPv4Address | IPv6Address):
        return str(value)
    if isinstance(value, IPv4Network | IPv6Network):
        return {"IP": str(value.network_address), "Mask": b64encode(value.netmask.packed).decode()}
    return value
