"""A small L2 chain for tests of the embedded engine: genesis by forks, attributes, signed transactions."""

import json
from functools import cache
from typing import Any

import orjson

from rollup_node.stages.protocol.deposits import DepositTransaction, encode_deposit
from rollup_node.stages.protocol.headers import Header
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.l1_info import L1Info, l1_info_deposit
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.types import SEQUENCER_FEE_VAULT
from rollup_node.tools.batcher.driver import Fees, Key, dynamic_fee_transaction
from rollup_node.tools.devnet.chain.blocks import Block
from rollup_node.tools.devnet.chain.eth_api import CallRequest, simulate
from rollup_node.tools.devnet.engine.backend import L2Backend
from rollup_node.tools.devnet.engine.genesis import ParsedGenesis, chain_spec, parse_genesis
from rollup_node.tools.devnet.evm.call_frame import BlockContext
from rollup_node.tools.devnet.evm.state import State
from rollup_node.tools.devnet.predeploys.alloc import predeploy_alloc

FORKS = ("regolith", "canyon", "ecotone", "fjord", "granite", "holocene", "isthmus", "jovian", "karst")
CHAIN_ID = 901
START = 1000
ETHER = 10**18


@cache
def _predeploys(config: bytes) -> bytes:
    """Return the `alloc` of a chain with this configuration, in JSON: what upgrades at genesis make of it takes 0.1
    s."""
    return orjson.dumps(predeploy_alloc(chain_spec(orjson.loads(config)), START))


def word(value: int | bytes) -> bytes:
    """Return a number or an address as a word of the ABI."""
    return value.rjust(32, b"\0") if isinstance(value, bytes) else value.to_bytes(32, "big")


def call_data(signature: str, *arguments: int | bytes) -> bytes:
    """Return the calldata of a function with arguments of a word each."""
    return keccak256(signature.encode())[:4] + b"".join(map(word, arguments))


def call_at_head(backend: L2Backend, to: bytes, data: bytes) -> bytes:
    """Return what a call at the head returns."""
    header = backend.chain.head.header
    context = BlockContext(9, header.timestamp, bytes(20), 30_000_000, 0, bytes(32), CHAIN_ID, lambda number: bytes(32))
    state, request = State(backend.store, header.state_root), CallRequest(b"\x99" * 20, to, 0, data, None)
    result = simulate(state, backend.evm_rules(header.timestamp), context, request, 10**6)
    assert result.succeeded, result.error
    return result.output


class L2TestChain:
    """Everything about a chain whose forks are active from genesis up to `newest`; `later` gives times of others."""

    def __init__(self, newest: str = "jovian", later: dict[str, int] | None = None) -> None:
        self.keys = [Key(bytes([number]) * 32) for number in range(1, 5)]
        self.times = {name: 0 for name in FORKS[: FORKS.index(newest) + 1]} if newest else {}
        self.times |= later or {}
        config = {
            "chainId": CHAIN_ID,
            "optimism": {"eip1559Elasticity": 6, "eip1559Denominator": 50, "eip1559DenominatorCanyon": 250},
            **{f"{name}Time": time for name, time in self.times.items()},
        }
        self.spec = chain_spec(config)
        rules = self.spec.schedule.l2(START)
        extra_data = "0x01000000fa000000060000000000000000" if rules.min_base_fee else "0x00000000fa00000006"
        self.file: dict[str, Any] = {
            "config": config,
            "timestamp": hex(START),
            "gasLimit": hex(60_000_000),
            "extraData": extra_data if rules.eip1559_params else "0x",
            "alloc": orjson.loads(_predeploys(orjson.dumps(config)))
            | {to_hex(key.address): {"balance": hex(10_000 * ETHER)} for key in self.keys},
        }

    def genesis(self) -> ParsedGenesis:
        return parse_genesis(json.dumps(self.file).encode())

    def backend(self) -> L2Backend:
        return L2Backend(self.genesis())

    def info(self, time: int, origin: int = 7, **values: Any) -> bytes:
        """Return the L1 attributes deposit of a block of this time."""
        fields: dict[str, Any] = {
            "number": origin,
            "timestamp": time,
            "base_fee": 10**9,
            "block_hash": bytes([origin % 256]) * 32,
            "sequence_number": 0,
            "batcher": b"\x0b" * 20,
            "overhead": (188).to_bytes(32, "big"),
            "scalar": (684_000).to_bytes(32, "big"),
            "base_fee_scalar": 1000,
            "blob_base_fee_scalar": 100_000,
            "blob_base_fee": 5,
            "operator_fee_scalar": 7,
            "operator_fee_constant": 9,
            "da_footprint_gas_scalar": 400,
        }
        info = L1Info(**(fields | values))
        is_system = self.spec.execution.at(time).deposits_use_all_gas
        return l1_info_deposit(info, self.spec.schedule.l1_info_format(time), is_system)

    def attributes(
        self, parent: Header, *transactions: bytes, seconds: int = 2, pool: bool = False, **values: Any
    ) -> PayloadAttributes:
        """Attributes of the parent's child, with the L1 attributes deposit first."""
        time = parent.timestamp + seconds
        rules = self.spec.schedule.l2(time)
        fields: dict[str, Any] = {
            "timestamp": time,
            "prev_randao": b"\x03" * 32,
            "fee_recipient": SEQUENCER_FEE_VAULT,
            "withdrawals": rules.withdrawals,
            "parent_beacon_root": b"\x04" * 32 if rules.beacon_root else None,
            "transactions": (self.info(time), *transactions),
            "no_tx_pool": not pool,
            "gas_limit": 60_000_000,
            "eip1559_params": bytes(8) if rules.eip1559_params else None,
            "min_base_fee": 0 if rules.min_base_fee else None,
        }
        return PayloadAttributes(**(fields | values))

    def extend(self, backend: L2Backend, *transactions: bytes, **values: Any) -> Block:
        """Put a block of these transactions on the backend's head."""
        execution = backend.begin(
            backend.chain.head, self.attributes(backend.chain.head.header, *transactions, **values)
        )
        block = execution.seal()
        backend.chain.insert(block)
        backend.set_head(block)
        return block

    def transfer(
        self,
        sender: int,
        nonce: int,
        to: bytes | None = b"\xdd" * 20,
        value: int = 0,
        data: bytes = b"",
        gas: int = 100_000,
    ) -> bytes:
        """Return a signed type 2 transaction of one of the keys."""
        fees = Fees(tip=10**6, cap=10**11)
        return dynamic_fee_transaction(self.keys[sender], CHAIN_ID, nonce, to, value, data, gas, fees)

    def deposit(self, sender: bytes, to: bytes | None, **values: Any) -> bytes:
        """Return a user's deposit."""
        fields: dict[str, Any] = {
            "source_hash": b"\x05" * 32,
            "sender": sender,
            "to": to,
            "mint": 0,
            "value": 0,
            "gas": 100_000,
            "is_system": False,
            "data": b"",
        }
        return encode_deposit(DepositTransaction(**(fields | values)))
