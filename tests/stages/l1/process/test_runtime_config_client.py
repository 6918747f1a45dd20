"""Reading the unsafe block signer from a real L1 state, with proofs and without [RTC1 to RTC4]."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.process.client import L1Endpoints
from rollup_node.stages.l1.process.runtime_config_client import (
    HEAD_WAIT_SECONDS,
    NEVER_SECONDS,
    RETRY_SECONDS,
    RuntimeConfigReader,
)
from rollup_node.stages.l1.verify import RECOMMENDED_SLOT, REQUIRED_SLOT, SIGNER_SLOT
from rollup_node.stages.messages.l1 import RuntimeConfig, RuntimeConfigs
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import ZERO_ADDRESS
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.chain.eth_api import EthApi
from rollup_node.tools.devnet.files import L1_CHAIN_ID
from tests.support.chains.l1_with_signer import CONTRACT, SIGNER, l1_with_signer
from tests.support.chains.plain_rollup import PLAIN_ROLLUP
from tests.support.servers.http_listener import Methods, json_rpc_app
from tests.support.servers.l1_endpoints import served

ROLLUP = msgspec.structs.replace(
    PLAIN_ROLLUP, l1_chain_id=L1_CHAIN_ID, l1_system_config=CONTRACT, protocol_versions=CONTRACT
)
HEAD = 3


CHAIN = ROLLUP.l2_chain_id


@asynccontextmanager
async def running_reader(
    methods: Methods, rollups: Sequence[RollupConfig] = (ROLLUP,), **options: Any
) -> AsyncIterator[tuple[RuntimeConfigReader, list[RuntimeConfigs]]]:
    """Yield a reader and the list of what it publishes; `options` of L1Config."""
    published: list[RuntimeConfigs] = []
    async with served(json_rpc_app(methods), rollups=rollups, **options) as (config, endpoints, _):
        yield RuntimeConfigReader(config, endpoints, lambda: HEAD, published.append), published


@pytest.mark.parametrize(("trust", "method"), [(False, "eth_getProof"), (True, "eth_getStorageAt")])
async def test_the_signer_is_read_below_the_confirmations(trust: bool, method: str) -> None:
    """[RTC1, RTC4]"""
    api = EthApi(l1_with_signer(), "test").methods()
    calls: list[tuple[Any, ...]] = []

    def recorded(*params: Any) -> Any:
        calls.append(params)
        return api[method](*params)

    async with running_reader({**api, method: recorded}, trust_rpc=trust, verifier_confs=2) as (reader, published):
        assert await reader.step() == 600.0
        assert published == [RuntimeConfigs({CHAIN: RuntimeConfig(SIGNER)})]
        assert calls[0][-1] == api["eth_getBlockByNumber"]("0x1")["hash"]


@pytest.mark.option("l1.trustrpc")
@pytest.mark.parametrize("trust", [False, True])
async def test_the_protocol_versions_are_read_with_the_signer(trust: bool) -> None:
    """[PRV2] The test's contract holds all slots."""
    versions = {REQUIRED_SLOT: b"\x01" * 32, RECOMMENDED_SLOT: b"\x02" * 32, SIGNER_SLOT: SIGNER.rjust(32, b"\0")}
    storage = {to_hex(slot): to_hex(value) for slot, value in versions.items()}
    api = EthApi(l1_with_signer(storage), "test").methods()
    async with running_reader(api, trust_rpc=trust, protocol_versions=True) as (reader, published):
        await reader.step()
        assert published == [RuntimeConfigs({CHAIN: RuntimeConfig(SIGNER, b"\x01" * 32, b"\x02" * 32)})]


async def test_what_chains_share_is_read_once() -> None:
    """Chains with own contracts and confirmations have own reads [LHD32]."""
    api = EthApi(l1_with_signer(), "test").methods()
    calls: Counter[str] = Counter()

    def counted(name: str) -> Callable[..., Any]:
        def call(*params: Any) -> Any:
            calls[name] += 1
            return api[name](*params)

        return call

    rollups = [
        msgspec.structs.replace(ROLLUP, l2_chain_id=10),
        msgspec.structs.replace(ROLLUP, l2_chain_id=130),
        msgspec.structs.replace(ROLLUP, l2_chain_id=8453, l1_system_config=b"\x99" * 20),
        msgspec.structs.replace(ROLLUP, l2_chain_id=7777),
    ]
    methods = {name: counted(name) for name in api}
    async with running_reader(methods, rollups, chain_confs={7777: 2}) as (reader, published):
        await reader.step()
        (configs,) = published
        signers = {chain: config.unsafe_block_signer for chain, config in configs.chains.items()}
        assert signers == {10: SIGNER, 130: SIGNER, 8453: ZERO_ADDRESS, 7777: SIGNER}
        assert (calls["eth_getProof"], calls["eth_getBlockByNumber"]) == (3, 2)


async def test_a_chain_whose_config_cannot_be_read_stops_no_other() -> None:
    """[LHD32, RTC3] The endpoint has pruned the state below its confirmations: now, and later for the other one."""
    api = EthApi(l1_with_signer(), "test").methods()
    pruned = {api["eth_getBlockByNumber"](hex(HEAD - 2))["hash"]}

    def proof(address: str, slots: list[str], block: str) -> Any:
        if block in pruned:
            raise JsonRpcError(-32000, "missing trie node")
        return api["eth_getProof"](address, slots, block)

    rollups = [msgspec.structs.replace(ROLLUP, l2_chain_id=chain) for chain in (10, 130)]
    options: dict[str, Any] = {"runtime_config_interval": 0.0, "verifier_confs": 2, "chain_confs": {130: 0}}
    async with running_reader({**api, "eth_getProof": proof}, rollups, **options) as (reader, published):
        for _ in range(2):
            text = "the runtime config of chain 10 cannot be read from L1: .*missing trie node"
            with pytest.raises(TemporaryError, match=text):
                await reader.step()
            assert published[-1] == RuntimeConfigs({130: RuntimeConfig(SIGNER)})
        pruned = {api["eth_getBlockByNumber"](hex(HEAD))["hash"]}
        assert await reader.step() == RETRY_SECONDS
        assert published[-1] == RuntimeConfigs({10: RuntimeConfig(SIGNER), 130: RuntimeConfig(SIGNER)})
        assert await reader.step() == NEVER_SECONDS


@pytest.mark.parametrize("storage", [{}, {to_hex(bytes(31) + b"\x01"): to_hex(bytes(31) + b"\x07")}])
async def test_a_slot_that_is_not_set_is_no_signer(storage: dict[str, str]) -> None:
    async with running_reader(EthApi(l1_with_signer(storage), "test").methods()) as (reader, published):
        await reader.step()
        assert published == [RuntimeConfigs({CHAIN: RuntimeConfig(ZERO_ADDRESS)})]


async def test_the_last_value_stays_when_l1_fails_later() -> None:
    """[RTC2, RTC3]"""
    api = EthApi(l1_with_signer(), "test").methods()
    failing = [True]

    def proof(*params: Any) -> Any:
        if failing[0]:
            raise JsonRpcError(-32000, "missing trie node")
        return api["eth_getProof"](*params)

    async with running_reader({**api, "eth_getProof": proof}) as (reader, published):
        with pytest.raises(TemporaryError, match=r"runtime config cannot be read from L1: .*missing trie node"):
            await reader.step()
        failing[0] = False
        await reader.step()
        failing[0] = True
        assert await reader.step() == RETRY_SECONDS
        assert published == [RuntimeConfigs({CHAIN: RuntimeConfig(SIGNER)})]


@pytest.mark.option("l1.runtime-config-reload-interval")
async def test_without_an_interval_it_is_read_once() -> None:
    """[RTC3]"""
    async with running_reader(EthApi(l1_with_signer(), "test").methods(), runtime_config_interval=0.0) as (
        reader,
        published,
    ):
        assert await reader.step() == await reader.step() == NEVER_SECONDS
        assert len(published) == 1


async def test_it_waits_for_the_head() -> None:
    config = L1Config(("http://127.0.0.1:1",), (ROLLUP,))
    endpoints = L1Endpoints(config, Meter("l1"))
    published: list[RuntimeConfigs] = []
    reader = RuntimeConfigReader(config, endpoints, lambda: None, published.append)
    assert await reader.step() == HEAD_WAIT_SECONDS
    assert published == []
    await endpoints.close()
