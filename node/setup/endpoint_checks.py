"""The checks of a start: the endpoints respond and belong to the chain.

An endpoint that does not respond yet is retried; each error is one line that says what is wrong and what to do
[LIF11, OPT33]."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import NamedTuple

from rollup_node.node.checks.beacon import BeaconReader, check_beacon_node, is_beacon_node
from rollup_node.node.checks.causes import Failure, engine_code, is_final, rejection, unusable
from rollup_node.node.checks.execution import (
    check_chain,
    check_coming_forks,
    check_identity,
    engine_client,
    is_execution_node,
    offered_methods,
)
from rollup_node.node.checks.finding import Finding, FindingLevel, error, ok, require, warning
from rollup_node.node.options.supernode import errors_of_chain, scoped
from rollup_node.node.setup.checkpoint import CheckpointCheck
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.engine.process.neighbour_clients import FollowClient, WrongChainError
from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.task import cancel_all
from rollup_node.stages.l1.config import CheckpointConfig
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.log_fields import Fields
from rollup_node.stages.p2p.blocks.signing import SigningError
from rollup_node.stages.p2p.config import SignerConfig
from rollup_node.stages.p2p.signer.io.remote_signer import RemoteSigner
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.pacing import backoff

FIRST_PAUSE = 0.1
log = Logger("start")


class NodeEndpoints(NamedTuple):
    """The endpoints to check, and their chain.

    `beacon_may_fail` turns a failed beacon check into a warning; with `l1_genesis` False the L1 genesis block is not
    checked, for an endpoint that has only part of the chain. `signer` is the remote signer, `follow` the follow
    source, None without one. `engine_kind` is that of `l2.enginekind`, None if it is not given, and `network` the
    built-in network with the chain's fork times, empty for none. `checkpoint` is that of `l1.checkpoint`. With
    `engine_may_be_away` an engine that does not respond is only warned of."""

    rollup: RollupConfig
    l1: tuple[str, ...]
    l2: str
    jwt_secret: bytes
    jwt_source: str
    beacon: str | None = None
    beacon_header: tuple[str, str] | None = None
    beacon_may_fail: bool = False
    l1_genesis: bool = True
    signer: SignerConfig | None = None
    follow: str | None = None
    engine_kind: str | None = None
    network: str = ""
    checkpoint: CheckpointConfig | None = None
    engine_may_be_away: bool = False


class RetryPolicy(NamedTuple):
    """How long an unreachable endpoint is retried, and an attempt and a pause may take, in seconds [LHD1].

    Pauses are short so that the node is ready soon after its endpoints are."""

    total: float = 80.0
    timeout: float = 10.0
    max_pause: float = 1.0


RETRY_POLICY = RetryPolicy()


async def check_chains(
    chains: Sequence[NodeEndpoints], policy: RetryPolicy = RETRY_POLICY, known: Sequence[NodeEndpoints] = ()
) -> None:
    """Check the endpoints of all chains of a node, those that they share once, but for those that are as in `known`.

    Raises SetupError [SNO6]."""
    may_be_away = len(chains) > 1
    shared = [chains[0], *(chain._replace(beacon=None, checkpoint=None) for chain in chains[1:])]
    new = [chain._replace(engine_may_be_away=may_be_away) for chain in shared]
    old: Sequence[NodeEndpoints | None] = known or [None] * len(chains)
    await asyncio.gather(*(check_endpoints(chain, policy, before) for chain, before in zip(new, old, strict=True)))


async def check_endpoints(
    endpoints: NodeEndpoints, policy: RetryPolicy = RETRY_POLICY, known: NodeEndpoints | None = None
) -> None:
    """Check L1, engine, beacon node and remote signer concurrently, but for those that are as in `known`.

    Raises SetupError for the first that fails."""

    def is_new(*fields: str) -> bool:
        return known is None or any(getattr(endpoints, field) != getattr(known, field) for field in fields)

    checks = []
    if is_new("l1"):
        checks.append(check_l1(endpoints, policy))
    if is_new("l2", "jwt_secret"):
        checks.append(check_engine(EngineCheck(endpoints, policy.timeout), policy, endpoints.engine_may_be_away))
    if endpoints.beacon is not None and is_new("beacon", "beacon_header"):
        checks.append(check_beacon(endpoints, policy))
    if endpoints.checkpoint is not None and is_new("checkpoint"):
        checks.append(check_checkpoint(endpoints.checkpoint, policy))
    if endpoints.follow is not None and is_new("follow"):
        checks.append(check_follow_source(endpoints, policy))
    if endpoints.signer is not None and is_new("signer"):
        checks.append(check_signer(endpoints.signer))
    tasks = [asyncio.ensure_future(check) for check in checks]
    try:
        await asyncio.gather(*tasks)
    finally:
        await cancel_all(tasks)


class L1Check:
    """The check of one L1 endpoint. `find`, one attempt, raises EndpointError or RpcFailure without a response."""

    def __init__(self, endpoints: NodeEndpoints, url: str, timeout: float) -> None:
        self._endpoints, self._url, self._timeout = endpoints, url, timeout
        self.client = JsonRpcClient(url, timeout=timeout)
        self.name = f"L1 {self.client.name}"

    async def find(self) -> list[Finding]:
        rollup = self._endpoints.rollup
        genesis = rollup.genesis.l1 if self._endpoints.l1_genesis else None
        return await check_chain(self.client, self.name, "L1", rollup.l1_chain_id, genesis)

    async def unusable(self, failure: Failure) -> Finding:
        """Return the finding for an endpoint that does not respond."""
        if has_answered(failure) and await is_beacon_node(self._url, self._timeout):
            text = f"L1 cannot be used, {self.client.name} of --l1 is a beacon node"
            return error(self.name, Code.ENDPOINTS_SWAPPED, text)
        return unusable(self.name, "L1", "l1", Code.L1_UNREACHABLE, failure)

    async def close(self) -> None:
        await self.client.close()


class EngineCheck:
    """The check of the execution engine, as L1Check. `offered` are the methods that the engine names."""

    what, kind = "the execution engine", "engine"

    def __init__(self, endpoints: NodeEndpoints, timeout: float) -> None:
        self._endpoints, self._timeout = endpoints, timeout
        self.chain = str(endpoints.rollup.l2_chain_id)
        direct = self.kind == "engine" or bool(endpoints.jwt_secret)
        self.client = engine_client(endpoints.l2, endpoints.jwt_secret, timeout, direct)
        self.name = f"{self.kind} {self.client.name}"
        self.offered: frozenset[str] | None = None

    async def find(self) -> list[Finding]:
        """Whether the engine accepts our JWT, has the chain and the Engine API; who it is, forks it may not know."""
        chain = await self.find_chain()
        if any(item.is_error for item in chain):
            return chain
        more, self.offered = await offered_methods(self.client, self.name)
        chain += more
        if any(item.is_error for item in chain):
            return chain
        endpoints = self._endpoints
        more, identity = await check_identity(self.client, self.name, endpoints.engine_kind)
        coming = await check_coming_forks(
            self.client, self.name, endpoints.rollup, identity, endpoints.network, time.time()
        )
        return [*chain, *more, *coming]

    async def find_chain(self) -> list[Finding]:
        """Whether the engine accepts our JWT and has the L2 chain."""
        rollup = self._endpoints.rollup
        try:
            return await check_chain(self.client, self.name, "L2", rollup.l2_chain_id, rollup.genesis.l2)
        except (EndpointError, RpcFailure) as failure:
            url, source = self._endpoints.l2, self._endpoints.jwt_source
            rejected = await rejection(self.name, url, source, failure, self._timeout)
            if rejected is None:
                raise
            return [rejected]

    async def unusable(self, failure: Failure) -> Finding:
        return unusable(self.name, self.what, "l2", engine_code(failure), failure)

    async def close(self) -> None:
        await self.client.close()


class BeaconCheck:
    """The check of the beacon node, as L1Check."""

    def __init__(self, endpoints: NodeEndpoints, timeout: float) -> None:
        self._endpoints, self._timeout = endpoints, timeout
        self.reader = BeaconReader(endpoints.beacon or "", endpoints.beacon_header, timeout)
        self.name = f"beacon {self.reader.name}"

    async def find(self) -> list[Finding]:
        """Whether the endpoint is a beacon node of the chain's L1."""
        return await check_beacon_node(self.reader, self.name, self._endpoints.rollup.l1_chain_id)

    async def unusable(self, failure: Failure) -> Finding:
        """Return the finding for a beacon node that does not respond."""
        what = "the L1 beacon node"
        if has_answered(failure) and await is_execution_node(self.reader.url, self._timeout):
            text = f"{what} cannot be used, {self.reader.name} of --l1.beacon is an execution node"
            return error(self.name, Code.ENDPOINTS_SWAPPED, text)
        return unusable(self.name, what, "l1.beacon", Code.BEACON_UNREACHABLE, failure)


def has_answered(failure: Failure) -> bool:
    """Whether the endpoint answers HTTP, if not what was asked for."""
    return isinstance(failure, RpcFailure) or failure.status is not None or "JSON" in str(failure)


async def find_follow_source(endpoints: NodeEndpoints, timeout: float) -> list[Finding]:
    """Whether the followed node is one of the chain; without it the node follows gossip [FSR8, FSR10]."""
    client = FollowClient(endpoints.follow or "", timeout, endpoints.rollup)
    check = f"follow source {client.name}"
    try:
        says_chain = await client.check_chain()
        if not says_chain:
            await client.status()  # an execution client has neither method
    except WrongChainError as failure:
        return [error(check, Code.FOLLOW_CHAIN, str(failure))]
    except TemporaryError as failure:
        return [warning(check, Code.FOLLOW_UNREACHABLE, f"the check of the follow source failed: {failure}")]
    finally:
        await client.close()
    text = f"chain {endpoints.rollup.l2_chain_id}" if says_chain else "it has heads, and does not say its chain"
    return [ok(check, text)]


async def find_signer(config: SignerConfig) -> list[Finding]:
    """Whether the remote signer answers `health_status`, which is called once [SGN1]."""
    signer = RemoteSigner(config)
    check = f"signer {signer.name}"
    try:
        return [ok(check, f"connected to the remote signer, version {await signer.version()}")]
    except SigningError as failure:
        advice = Code.SIGNER_UNREACHABLE.remedy
        advice += ", and --signer.tls.ca, --signer.tls.cert and --signer.tls.key" if config.tls_enabled else ""
        return [error(check, Code.SIGNER_UNREACHABLE, f"the remote signer cannot be used, {failure}", advice)]
    finally:
        await signer.close()


async def check_l1(endpoints: NodeEndpoints, policy: RetryPolicy) -> None:
    """Every L1 endpoint that responds must be the L1 of the chain, and at least one must respond. Raises SetupError."""
    checks = [L1Check(endpoints, url, policy.timeout) for url in endpoints.l1]

    async def one_round() -> list[Finding]:
        results = await asyncio.gather(*(check.find() for check in checks), return_exceptions=True)
        findings = [item for result in results if isinstance(result, list) for item in result]
        failures = [result for result in results if isinstance(result, BaseException)]
        unknown = next((failure for failure in failures if not isinstance(failure, EndpointError | RpcFailure)), None)
        if unknown is not None or len(failures) == len(results):
            raise unknown or failures[0]
        for failure in failures:
            text = "an L1 endpoint does not respond, others do"
            log.warn(text, code=Code.L1_UNREACHABLE.text, error=str(failure))
        return findings

    try:
        require(await _retry(one_round, checks[0].unusable, "L1", Code.L1_UNREACHABLE, policy), log)
    finally:
        for check in checks:
            await check.close()


async def check_engine(check: EngineCheck, policy: RetryPolicy, may_be_away: bool = False) -> None:
    """Check that the execution engine accepts our JWT and has the L2 chain. Raises SetupError.

    One that `may_be_away` is that of one of several chains."""

    async def away(failure: Failure) -> Finding:
        finding = await check.unusable(failure)
        text, advice = (scoped(line, check.chain) for line in (finding.text, finding.remedy))
        return finding._replace(level=FindingLevel.WARNING, text=f"chain {check.chain}: {text}", advice=advice)

    if may_be_away:
        policy = policy._replace(total=0.0)
    try:
        unusable = away if may_be_away else check.unusable
        with errors_of_chain(check.chain if may_be_away else ""):
            require(await _retry(check.find, unusable, check.what, Code.ENGINE_UNREACHABLE, policy), log)
    finally:
        await check.close()


async def check_follow_source(endpoints: NodeEndpoints, policy: RetryPolicy) -> None:
    """Check that the node whose heads are followed is one of the chain, if it responds. Raises SetupError."""
    require(await find_follow_source(endpoints, policy.timeout), log)


async def check_beacon(endpoints: NodeEndpoints, policy: RetryPolicy) -> None:
    """Check that the beacon node is one of L1, only once if the check may fail. Raises SetupError."""
    check = BeaconCheck(endpoints, policy.timeout)
    total = 0.0 if endpoints.beacon_may_fail else policy.total
    code, policy = Code.BEACON_UNREACHABLE, policy._replace(total=total)
    result = await _retry(check.find, check.unusable, "the L1 beacon node", code, policy)
    try:
        require(result, log)
    except SetupError as failure:
        if not endpoints.beacon_may_fail:
            raise SetupError(f"failed to check L1 Beacon API version: {failure}") from None
        log.warn("the check of the L1 beacon node failed", code=Code.BEACON_UNREACHABLE.text, error=str(failure))


async def check_checkpoint(config: CheckpointConfig, policy: RetryPolicy) -> None:
    """Check that a Beacon API proves the checkpoint, and that it is recent. Raises SetupError."""
    check = CheckpointCheck(config, time.time)
    try:
        code = Code.L1_UNPROVEN
        require(await _retry(check.find, check.unusable, "a Beacon API of --l1.checkpoint", code, policy), log)
    finally:
        await check.close()


async def check_signer(config: SignerConfig) -> None:
    """Check that the remote signer answers. Raises SetupError if it does not."""
    signer = await find_signer(config)
    require(signer, log)
    log.info(signer[0].text, endpoint=signer[0].check)


async def _retry(
    find: Callable[[], Awaitable[list[Finding]]],
    unusable: Callable[[Failure], Awaitable[Finding]],
    what: str,
    code: Code,
    policy: RetryPolicy,
) -> list[Finding]:
    """Repeat a check while its endpoint does not respond; in the end the finding for that."""
    deadline = time.monotonic() + policy.total
    for failures in count(1):
        try:
            return await find()
        except (EndpointError, RpcFailure) as failure:
            if time.monotonic() >= deadline or is_final(failure):
                return [await unusable(failure)]
            if failures.bit_count() == 1:
                fields: Fields = {"error": failure, "failures": failures, "do": code.remedy}
                log.warn(f"{what} does not respond, retrying", code=code.text, **fields)
        await asyncio.sleep(backoff(failures, FIRST_PAUSE, policy.max_pause))
    raise AssertionError("the loop has no end")
