"""What the virtual machine's forks change, in one record. Code asks a rule, never a name."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from rollup_node.stages.protocol.types import Address
from rollup_node.tools.devnet.evm.code_analysis import InstructionSet

MAX_CODE = 0x6000


class Precompile(NamedTuple):
    """A contract of the protocol's own: its gas by input, and its work. Both raise Halt for input that faults."""

    gas: Callable[[bytes], int]
    run: Callable[[bytes], bytes]


class BlobRules(msgspec.Struct, frozen=True):
    """Blobs a block aims at and may have, and how fast their fee moves (EIP-4844, 7691, 7892)."""

    target: int
    maximum: int
    update_fraction: int
    reserve_price: bool = False
    per_transaction: int | None = None


class EvmRules(msgspec.Struct, frozen=True):
    """Rules of one fork for code and for transactions. Sizes in bytes."""

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

    def warm_addresses(self) -> frozenset[Address]:
        """The precompiles, which every transaction finds warm."""
        return frozenset(self.precompiles)
