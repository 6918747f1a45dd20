"""The checkpoint from which L1 is proven: its options, and what a start asks Beacon APIs about it [LCP19]."""

from collections.abc import Callable

import msgspec

from rollup_node.node.checks.beacon import (
    GENESIS_PATH,
    VERSION_PATH,
    GenesisRoot,
    Version,
    decoded,
    light_client_advice,
)
from rollup_node.node.checks.causes import Failure
from rollup_node.node.checks.finding import Finding, error, ok
from rollup_node.node.options.errors import OptionError
from rollup_node.node.options.given_files import read_chain_file
from rollup_node.node.options.values import Values
from rollup_node.stages.io.files.private_files import read_private_file, why_unusable
from rollup_node.stages.io.http.endpoint_errors import EndpointError
from rollup_node.stages.l1.config import CheckpointConfig
from rollup_node.stages.l1.light_client.beacon_json import LightClientDataError
from rollup_node.stages.l1.light_client.network import (
    BEACON_NETWORKS,
    BeaconNetwork,
    NetworkFileError,
    parse_network,
)
from rollup_node.stages.l1.light_client.store import ROUTES, WEAK_SUBJECTIVITY_SECONDS, LightClient, Request
from rollup_node.stages.l1.process.beacon_client import LightClientEndpoint, LightClientEndpoints
from rollup_node.stages.l1.stored_root import MAX_BYTES, StoredRoot, StoredRootError, decode_stored_root
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.texts import one_line
from rollup_node.stages.protocol.types import Hash

NEW_CHECKPOINT = (
    "give the root of a recent finalized beacon block with --l1.checkpoint, from two sources that you trust,"
    " such as your own beacon node and a block explorer (rollup-node checkpoint compares beacon nodes)"
)
_OTHER_BEACON = "use another beacon node for --l1.checkpoint.beacon"
_WHICH_ROOT = "find out which is wrong before the node goes on: delete the file if it is that"
_NO_ROUTE = (400, 404, 405, 501)


def checkpoint_config(values: Values, l1_chain_id: int) -> CheckpointConfig | None:
    """Return the configuration of `l1.checkpoint*`; None if neither a root nor a file is given. Raises OptionError."""
    root, path = values["l1.checkpoint"], values["l1.checkpoint.path"]
    if root is None and path is None:
        alone = next((name for name in ("l1.checkpoint.beacon", "l1.checkpoint.network") if values[name]), None)
        if alone is not None:
            raise OptionError(f"--{alone} proves nothing without --l1.checkpoint: {NEW_CHECKPOINT}")
        return None
    if values["l1.trustrpc"]:
        raise OptionError("--l1.trustrpc believes the endpoints that --l1.checkpoint proves: leave one of them out")
    network = _network(values["l1.checkpoint.network"], l1_chain_id)
    own = values["l1.checkpoint.beacon"]
    beacons = own or (*filter(None, [values["l1.beacon"]]), *values["l1.beacon-fallbacks"])
    if not beacons:
        raise OptionError("--l1.checkpoint needs a Beacon API: give --l1.checkpoint.beacon or --l1.beacon")
    stored = None if path is None else read_stored(path, network)
    if root is None:
        if stored is None:
            raise OptionError(f"no root is kept in {path} (--l1.checkpoint.path) yet: {NEW_CHECKPOINT}")
        root = stored.checkpoint
    header = values["l1.beacon-header"] if not own and values["l1.beacon"] else None
    return CheckpointConfig(root, tuple(beacons), network, path, header)


_UNREADABLE = "failed to read the beacon chain of --l1.checkpoint.network"


def _network(path: str | None, l1_chain_id: int) -> BeaconNetwork:
    if path is None:
        if l1_chain_id not in BEACON_NETWORKS:
            raise OptionError(
                f"the beacon chain of L1 chain {l1_chain_id} is not built in: describe it with --l1.checkpoint.network,"
                " a JSON file of its Beacon API's config/spec and beacon/genesis"
            )
        return BEACON_NETWORKS[l1_chain_id]
    try:
        return parse_network(read_chain_file(path, _UNREADABLE))
    except NetworkFileError as failure:
        raise OptionError(f"{_UNREADABLE}: {path}: {failure}") from None


def read_stored(path: str, network: BeaconNetwork) -> StoredRoot | None:
    """Return the root that is kept in a file; None if there is none. Raises OptionError for any other file."""
    name = f"{path} (--l1.checkpoint.path)"
    try:
        stored = decode_stored_root(read_private_file(path, MAX_BYTES))
    except FileNotFoundError:
        return None
    except OSError as failure:
        raise OptionError(f"cannot read {name}: {why_unusable(path, failure)}") from None
    except StoredRootError as failure:
        raise OptionError(f"{name} has no kept root: {failure}: delete it, and {NEW_CHECKPOINT}") from None
    if stored.genesis_validators_root != network.genesis_validators_root:
        raise OptionError(f"{name} has a root of another network than {network.name}: give another path")
    return stored


class _Message(msgspec.Struct):
    slot: str


class _SignedHeader(msgspec.Struct):
    message: _Message


class _Header(msgspec.Struct):
    header: _SignedHeader


class CheckpointCheck:
    """The check of the checkpoint: one Beacon API at least proves it; `wall_clock` in Unix seconds.

    `find`, one attempt, raises EndpointError if no endpoint responds."""

    def __init__(self, config: CheckpointConfig, wall_clock: Callable[[], float]) -> None:
        self._config, self._wall_clock = config, wall_clock
        self._endpoints = LightClientEndpoints(config)
        self.name = f"checkpoint {to_hex(config.root)[:18]}"

    async def find(self) -> list[Finding]:
        """Return what the first endpoint says that proves the checkpoint, or else all that is wrong."""
        findings: list[Finding] = []
        failures: list[EndpointError] = []
        for endpoint in self._endpoints.all:
            try:
                finding = await self._find(endpoint)
            except EndpointError as failure:
                failures.append(failure)
                continue
            # Two roots that contradict each other do so by signatures, whatever the other endpoints have.
            if not finding.is_error or finding.advice == _WHICH_ROOT:
                return [finding]
            findings.append(finding)
        if not findings:
            raise failures[0]
        return findings[:1]

    async def unusable(self, failure: Failure) -> Finding:
        """Return the finding for Beacon APIs that do not respond."""
        advice = "check --l1.checkpoint.beacon, or --l1.beacon where that is not given"
        return error(self.name, Code.L1_UNPROVEN, f"the checkpoint cannot be proven, {failure}", advice)

    async def close(self) -> None:
        await self._endpoints.close()

    async def _find(self, endpoint: LightClientEndpoint) -> Finding:
        network = self._config.network
        genesis = await decoded(endpoint.get(GENESIS_PATH), GenesisRoot)
        if genesis is None or genesis.genesis_validators_root != to_hex(network.genesis_validators_root):
            return self._error(
                f"{endpoint.name} is not a beacon node of {network.name}",
                "check --l1.checkpoint.beacon, and --network or --l1.checkpoint.network",
            )
        stored = None if self._config.path is None else read_stored(self._config.path, network)
        root = self._config.root if stored is None or not stored.replaces(self._config.root) else stored.root
        client = await self._bootstrap(endpoint, root)
        if isinstance(client, Finding):
            return client
        assert client.store is not None
        slot = client.store.finalized.beacon.slot
        days = client.age_of(slot, self._wall_clock()) / 86_400
        if client.is_too_old(self._wall_clock()):
            limit = WEAK_SUBJECTIVITY_SECONDS // 86_400
            text = f"root {to_hex(root)} of slot {slot} is {days:.0f} days old, more than {limit}: it proves nothing"
            return self._error(text, NEW_CHECKPOINT)
        if stored is not None and root != stored.root:
            fault = await self._contradiction(endpoint, client, stored)
            if fault is not None:
                return fault
        return ok(self.name, f"{endpoint.name} proves the root of slot {slot}, {days * 24:.0f} hours old")

    async def _bootstrap(self, endpoint: LightClientEndpoint, root: Hash) -> LightClient | Finding:
        """Return a client that has started from a root, or why it cannot."""
        client = LightClient(self._config.network, root)
        (request,) = client.requests(self._wall_clock())
        try:
            refusal = client.take(request, await self._get(endpoint, request), self._wall_clock())
        except LightClientDataError as failure:
            return self._lie(endpoint, f"has no proof of root {to_hex(root)}: {failure}")
        except EndpointError as failure:
            if failure.status not in _NO_ROUTE:
                raise
            return await self._why_unknown(endpoint, root)
        if refusal is not None:
            return self._lie(endpoint, f"has no proof of root {to_hex(root)}: {refusal.words}")
        return client

    async def _why_unknown(self, endpoint: LightClientEndpoint, root: Hash) -> Finding:
        """Return why an endpoint has no bootstrap: it serves no light clients, or not from this block."""
        try:
            await endpoint.get(f"{ROUTES}/optimistic_update", (), "optimistic_update")
        except EndpointError as failure:
            if failure.status not in _NO_ROUTE:
                raise
            answer = await decoded(endpoint.get(VERSION_PATH), Version)
            advice = light_client_advice("" if answer is None else answer.version)
            return self._error(f"{endpoint.name} does not serve light clients", advice)
        header = await decoded(endpoint.get(f"eth/v1/beacon/headers/{to_hex(root)}"), _Header)
        if header is None:
            return self._error(f"{endpoint.name} does not know a block with root {to_hex(root)}", NEW_CHECKPOINT)
        slot = header.header.message.slot
        return self._error(
            f"{endpoint.name} has no proof of the block of slot {one_line(slot)[:20]}: it is not the last of an epoch,"
            " not finalized, or too old",
            NEW_CHECKPOINT,
        )

    async def _contradiction(
        self, endpoint: LightClientEndpoint, client: LightClient, stored: StoredRoot
    ) -> Finding | None:
        """Return the finding where a root and the one kept lead to different sync committees in the later's period.

        None if the endpoint has no proof of the kept one, or of what is between them; a lie is a finding."""
        other = await self._bootstrap(endpoint, stored.root)
        if isinstance(other, Finding):
            return other if other.advice == _OTHER_BEACON else None
        clients = sorted((client, other), key=_slot)
        earlier, later = clients[0].store, clients[1].store
        assert earlier is not None and later is not None
        while earlier.period < later.period:
            before = earlier.period, earlier.next_sync_committee
            request = clients[0].updates(self._wall_clock())
            try:
                refusal = clients[0].take(request, await self._get(endpoint, request), self._wall_clock())
                lie = refusal.words if refusal is not None and refusal.is_lie else ""
            except LightClientDataError as failure:
                lie = str(failure)
            if lie:
                return self._lie(endpoint, f"does not prove what follows slot {earlier.finalized.beacon.slot}: {lie}")
            if (earlier.period, earlier.next_sync_committee) == before:
                return None
        if earlier.period > later.period:
            return None
        is_same_slot = earlier.finalized.beacon.slot == later.finalized.beacon.slot
        is_other_block = is_same_slot and earlier.finalized.beacon.root != later.finalized.beacon.root
        if not is_other_block and earlier.current_sync_committee.root == later.current_sync_committee.root:
            return None
        return self._error(
            f"--l1.checkpoint {to_hex(client.root)} and the root in {self._config.path} are not of one chain",
            _WHICH_ROOT,
        )

    async def _get(self, endpoint: LightClientEndpoint, request: Request) -> bytes:
        return await endpoint.get(request.path, request.query, request.kind.value)

    def _lie(self, endpoint: LightClientEndpoint, text: str) -> Finding:
        return self._error(f"{endpoint.name} {endpoint.masked(text)}", _OTHER_BEACON)

    def _error(self, text: str, advice: str) -> Finding:
        return error(self.name, Code.L1_UNPROVEN, text, advice)


def _slot(client: LightClient) -> int:
    assert client.store is not None
    return client.store.finalized.beacon.slot
