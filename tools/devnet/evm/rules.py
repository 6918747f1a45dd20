"""The rules of the EVM that forks change. Code reads a rule and never compares fork names."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from rollup_node.stages.protocol.types import Address
from rollup_node.tools.devnet.evm.code_analysis import InstructionSet

MAX_CODE = 0x6000


class Precompile(NamedTuple):
    """A precompiled contract: gas by input, and output by input. Both raise ExceptionalHalt for invalid input."""

    gas: Callable[[bytes], int]
    run: Callable[[bytes], bytes]


class BlobRules(msgspec.Struct, frozen=True):
    """Target and maximum of blobs in a block, and the update fraction of their fee (EIP-4844, EIP-7691, EIP-7892)."""

    target: int
    maximum: int
    update_fraction: int
    reserve_price: bool = False
    per_transaction: int | None = None


class EvmRules(msgspec.Struct, frozen=True):
    """The rules of a fork for code, transactions and headers; sizes in bytes. `transfer_logs`: transfers of wei emit a
    log (EIP-7708); `slot_number` and `block_access_list`: the header has these fields (EIP-7843, EIP-7928)."""

    name: str
    instructions: InstructionSet
    precompiles: Mapping[Address, Precompile]
    warm_coinbase: bool = False
    max_init_code: int | None = None
    init_code_word_gas: int = 0
    delegations: bool = False
    floor_gas: bool = False
    max_transaction_gas: int | None = None
    blobs: BlobRules | None = None
    max_code: int = MAX_CODE
    transfer_logs: bool = False
    slot_number: bool = False
    block_access_list: bool = False

    def warm_addresses(self) -> frozenset[Address]:
        """The precompiles, which are warm in every transaction (EIP-2929)."""
        return frozenset(self.precompiles)
