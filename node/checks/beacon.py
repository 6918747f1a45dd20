"""Checks of a beacon node: that it is one, and of the chain of L1."""

from collections.abc import Awaitable
from typing import TypeVar

import msgspec

from rollup_node.node.checks.causes import http_get
from rollup_node.node.checks.finding import Finding, error, ok
from rollup_node.stages.io.http.connection import is_success
from rollup_node.stages.io.http.endpoint_errors import EndpointError, endpoint_name, parsed_url
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import DECODE_ERRORS
from rollup_node.stages.protocol.foreign_json import BeaconAnswer, shown_body
from rollup_node.stages.protocol.hex_encoding import short_repr

T = TypeVar("T")

GENESIS_PATH = "eth/v1/beacon/genesis"
VERSION_PATH = "eth/v1/node/version"
DEPOSIT_PATH = "eth/v1/config/deposit_contract"
MAX_BODY = 1 << 16

GENESIS_TIMES = {1: 1606824023, 11155111: 1655733600, 17000: 1695902400, 560048: 1742213400}
"""Genesis times of the public beacon chains by the id of their L1: Mainnet, Sepolia, Holesky, Hoodi. Source: the sum of
MIN_GENESIS_TIME and GENESIS_DELAY in the configurations of github.com/eth-clients; Mainnet's is that of its genesis
state, which deposits decided."""


LIGHT_CLIENT_FLAGS = {
    "lighthouse": "start it without --disable-light-client-server, or with --light-client-server before version 7",
    "lodestar": "start it without --disableLightClientServer",
    "nimbus": "start it with --rest and --light-client-data-serve=true",
    "prysm": "start it with --enable-light-client",
    "teku": "it has no such routes: ask a beacon node of another client (--l1.checkpoint.beacon)",
}
"""How a client serves light clients. Sources: tests of the flag in sigp/lighthouse (lighthouse/tests/beacon_node.rs),
ChainSafe/lodestar (packages/beacon-node), docs/the_nimbus_book/src/light-client-data.md of status-im/nimbus-eth2,
OffchainLabs/prysm (config/features/flags.go), Consensys/teku#9528."""
_ANY_CLIENT = "turn them on there, or ask another beacon node (--l1.checkpoint.beacon)"


class _Genesis(msgspec.Struct):
    genesis_time: str


class GenesisRoot(msgspec.Struct):
    """What names a beacon chain, in an answer to GENESIS_PATH."""

    genesis_validators_root: str


class Version(msgspec.Struct):
    """An answer to VERSION_PATH."""

    version: str


class _Deposit(msgspec.Struct):
    chain_id: str | int


class BeaconReader:
    """Reads short answers of one Beacon API; `timeout` in seconds. Methods raise EndpointError."""

    def __init__(self, url: str, header: tuple[str, str] | None, timeout: float) -> None:
        self.name, self.url, self.timeout = endpoint_name(url), url, timeout
        self._headers = {"Accept": "application/json", "Accept-Encoding": "gzip", **dict([header] if header else [])}

    async def get(self, path: str) -> bytes:
        """Return the body of a success."""
        base = parsed_url(self.url)
        if base is None:
            raise EndpointError(self.name, "malformed URL")
        address = base.with_path(f"{base.path.rstrip('/')}/{path}").with_query(base.query)
        answer = await http_get(self.name, address, self._headers, self.timeout, MAX_BODY)
        status, body = answer.status, answer.body
        if not is_success(status):
            words = f": {shown_body(body)}" if body else ""
            raise EndpointError(self.name, f"HTTP status {status} for /{path}{words}", status)
        return body

    async def read(self, path: str, shape: type[T]) -> T | None:
        """Return the data of the answer; None for another shape or a route that does not exist."""
        return await decoded(self.get(path), shape)


async def decoded(answer: Awaitable[bytes], shape: type[T]) -> T | None:
    """Return the data of an answer; None for another shape or an HTTP error. Raises EndpointError."""
    try:
        return msgspec.json.decode(await answer, type=BeaconAnswer[shape]).data  # type: ignore[valid-type]
    except DECODE_ERRORS:
        return None
    except EndpointError as failure:
        if failure.status is None:
            raise
        return None


async def check_beacon_node(reader: BeaconReader, check: str, l1_chain_id: int) -> list[Finding]:
    """Whether the endpoint is a beacon node of that L1, by genesis time and deposit chain id. Raises EndpointError."""
    body = await reader.get(GENESIS_PATH)
    try:
        text = msgspec.json.decode(body, type=BeaconAnswer[_Genesis]).data.genesis_time
    except DECODE_ERRORS:
        return [_no_beacon(check, f"{reader.name} does not respond to /{GENESIS_PATH} like a beacon node")]
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        return [
            _no_beacon(check, f"{reader.name} responds to /{GENESIS_PATH} with the genesis time {short_repr(text)}")
        ]
    expected = GENESIS_TIMES.get(l1_chain_id)
    if expected is not None and int(text) != expected:
        words = f"its genesis time is {text}, that of L1 chain {l1_chain_id} is {expected}"
        return [error(check, Code.BEACON_CHAIN, f"{reader.name} is of another chain: {words}")]
    deposit = await reader.read(DEPOSIT_PATH, _Deposit)
    if deposit is not None and str(deposit.chain_id) != str(l1_chain_id):
        words = f"its deposit contract is on chain {short_repr(str(deposit.chain_id))}, L1 is chain {l1_chain_id}"
        return [error(check, Code.BEACON_CHAIN, f"{reader.name} is of another chain: {words}")]
    named = "" if deposit is None else f", deposit contract on chain {l1_chain_id}"
    return [ok(check, f"genesis time {text}{named}")]


def _no_beacon(check: str, text: str) -> Finding:
    return error(check, Code.BEACON_UNREACHABLE, text)


async def is_beacon_node(url: str, timeout: float) -> bool:
    """Whether a URL answers as a Beacon API."""
    try:
        return await BeaconReader(url, None, timeout).read(GENESIS_PATH, _Genesis) is not None
    except EndpointError:
        return False


def light_client_advice(version: str) -> str:
    """Return how a beacon node of this `node/version` is made to serve light clients."""
    client = version.partition("/")[0].lower()
    return LIGHT_CLIENT_FLAGS.get(client, _ANY_CLIENT)
