"""Reading the unsafe block signer from a real L1 state: by proof, or as told."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.process.client import L1Endpoints
from rollup_node.stages.l1.process.runtime_config_client import RETRY_SECONDS, WAIT_FOR_HEAD, RuntimeConfigReader
from rollup_node.stages.l1.runtime_config import SIGNER_SLOT, address_in, proven_value, stored_value
from rollup_node.stages.l1.verify import InvalidDataError
from rollup_node.stages.messages.l1 import RuntimeConfig
from rollup_node.stages.protocol.config import Genesis, RollupConfig, SystemConfig
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.hex_encoding import from_hex, to_hex
from rollup_node.stages.protocol.types import ZERO_ADDRESS, BlockId
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.chain.eth_api import EthApi
from rollup_node.tools.devnet.files import L1_CHAIN_ID, l1_genesis
from rollup_node.tools.devnet.l1.ledger import L1Ledger
from rollup_node.tools.devnet.serving.jsonrpc_server import JsonRpc, Listener, application

SIGNER = bytes.fromhex("f39fd6e51aad88f6f4ce6ab8827279cfffb92266")
CONTRACT = bytes.fromhex("6900000000000000000000000000000000000002")
Methods = dict[str, Callable[..., Any]]


def config(url: str, **options: Any) -> L1Config:
    nowhere = BlockId(0, bytes(32))
    rollup = RollupConfig(
        genesis=Genesis(nowhere, nowhere, 0, SystemConfig(bytes(20), bytes(32), bytes(32), 1)),
        block_time=2,
        max_sequencer_drift=600,
        seq_window_size=3600,
        channel_timeout=300,
        l1_chain_id=L1_CHAIN_ID,
        l2_chain_id=10,
        fork_times={},
        batch_inbox=bytes(20),
        deposit_contract=bytes(20),
        l1_system_config=CONTRACT,
    )
    return L1Config((url,), rollup, timeout=2.0, **options)


def chain(storage: dict[str, str] | None = None) -> L1Ledger:
    """An L1 of three blocks whose SystemConfig has a signer set from genesis on."""
    genesis = l1_genesis(1_700_000_000)
    stored = {to_hex(SIGNER_SLOT): to_hex(SIGNER.rjust(32, b"\0"))} if storage is None else storage
    genesis["alloc"][to_hex(CONTRACT)]["storage"] = stored
    ledger = L1Ledger(genesis, 2)
    for number in range(1, 4):
        ledger.mine(1_700_000_000 + 2 * number)
    return ledger


def read(
    methods: Methods, scene: Callable[[RuntimeConfigReader, list[RuntimeConfig]], Awaitable[None]], **options: Any
) -> None:
    async def whole() -> None:
        listener = Listener(application(JsonRpc(methods)), 0)
        await listener.start()
        endpoints = L1Endpoints(settings := config(listener.url, **options), Meter("l1"))
        published: list[RuntimeConfig] = []
        try:
            async with asyncio.timeout(10):
                await scene(RuntimeConfigReader(settings, endpoints, lambda: 3, published.append), published)
        finally:
            await endpoints.close()
            await listener.stop()

    asyncio.run(whole())


@pytest.mark.parametrize(("trust", "method"), [(False, "eth_getProof"), (True, "eth_getStorageAt")])
def test_the_signer_is_read_below_the_confirmations(trust: bool, method: str) -> None:
    api, asked = EthApi(chain(), "test").methods(), []

    def watched(*parameters: Any) -> Any:
        asked.append(parameters)
        return api[method](*parameters)

    async def scene(reader: RuntimeConfigReader, published: list[RuntimeConfig]) -> None:
        assert await reader.step() == 600.0
        assert published == [RuntimeConfig(SIGNER)]
        assert asked[0][-1] == api["eth_getBlockByNumber"]("0x1")["hash"]

    read({**api, method: watched}, scene, trust_rpc=trust, verifier_confs=2)


@pytest.mark.parametrize("storage", [{}, {to_hex(bytes(31) + b"\x01"): to_hex(bytes(31) + b"\x07")}])
def test_a_slot_that_is_not_set_names_nobody(storage: dict[str, str]) -> None:
    async def scene(reader: RuntimeConfigReader, published: list[RuntimeConfig]) -> None:
        await reader.step()
        assert published == [RuntimeConfig(ZERO_ADDRESS)]

    read(EthApi(chain(storage), "test").methods(), scene)


def test_what_was_read_stays_when_l1_fails_later() -> None:
    api, is_away = EthApi(chain(), "test").methods(), [True]

    def proof(*parameters: Any) -> Any:
        if is_away[0]:
            raise JsonRpcError(-32000, "missing trie node")
        return api["eth_getProof"](*parameters)

    async def scene(reader: RuntimeConfigReader, published: list[RuntimeConfig]) -> None:
        with pytest.raises(TemporaryError, match=r"signer cannot be read from L1: .*missing trie node"):
            await reader.step()
        is_away[0] = False
        await reader.step()
        is_away[0] = True
        assert await reader.step() == RETRY_SECONDS
        assert published == [RuntimeConfig(SIGNER)]

    read({**api, "eth_getProof": proof}, scene)


def test_without_an_interval_it_is_read_once() -> None:
    api = EthApi(chain(), "test").methods()

    async def scene(reader: RuntimeConfigReader, published: list[RuntimeConfig]) -> None:
        assert await reader.step() == await reader.step() == 3600.0
        assert len(published) == 1

    read(api, scene, runtime_config_interval=0.0)


def test_no_head_is_waited_for() -> None:
    async def scene() -> None:
        endpoints = L1Endpoints(settings := config("http://127.0.0.1:1"), Meter("l1"))
        assert await RuntimeConfigReader(settings, endpoints, lambda: None, print).step() == WAIT_FOR_HEAD
        await endpoints.close()

    asyncio.run(scene())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda proof: None,
        lambda proof: {**proof, "accountProof": None},
        lambda proof: {**proof, "accountProof": proof["accountProof"][1:]},
        lambda proof: {**proof, "storageProof": []},
        lambda proof: {**proof, "storageProof": ["0x"]},
        lambda proof: {**proof, "storageProof": [{"proof": ["0xzz"]}]},
        lambda proof: {**proof, "storageProof": [{"proof": ["0xc0"]}]},
    ],
)
def test_a_proof_that_does_not_hold_is_refused(spoil: Callable[[Any], Any]) -> None:
    api = EthApi(ledger := chain(), "test").methods()
    proof = api["eth_getProof"](to_hex(CONTRACT), [to_hex(SIGNER_SLOT)], "latest")
    root = ledger.chain.head.header.state_root
    assert address_in(proven_value(proof, root, CONTRACT, SIGNER_SLOT)) == SIGNER
    with pytest.raises(InvalidDataError):
        proven_value(spoil(proof), root, CONTRACT, SIGNER_SLOT)


@pytest.mark.parametrize("answer", [None, 1, "zz", "0x" + 33 * "00"])
def test_a_storage_value_that_is_none_is_refused(answer: Any) -> None:
    with pytest.raises(InvalidDataError):
        stored_value(answer)
    assert address_in(stored_value("0x" + SIGNER.hex())) == SIGNER == from_hex(to_hex(SIGNER))
