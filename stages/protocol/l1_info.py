"""The L1 attributes transaction: the layouts of its call data, and how it is read from a block [LIN1 to LIN22]."""

import struct

import msgspec

from rollup_node.stages.protocol import deposits
from rollup_node.stages.protocol.forks.rules import L1InfoFormat
from rollup_node.stages.protocol.types import L1_ATTRIBUTES_DEPOSITOR, L1_BLOCK, ZERO_HASH, Address, BlockId, Hash

SELECTORS = {
    L1InfoFormat.BEDROCK: bytes.fromhex("015d8eb9"),
    L1InfoFormat.ECOTONE: bytes.fromhex("440a5e20"),
    L1InfoFormat.ISTHMUS: bytes.fromhex("098999be"),
    L1InfoFormat.JOVIAN: bytes.fromhex("3db6be2b"),
}
SIZES = {L1InfoFormat.BEDROCK: 260, L1InfoFormat.ECOTONE: 164, L1InfoFormat.ISTHMUS: 176, L1InfoFormat.JOVIAN: 178}
DEFAULT_DA_FOOTPRINT_GAS_SCALAR = 400

_GAS = 1_000_000
_SYSTEM_GAS = 150_000_000
_PAD_12 = bytes(12)
_PAD_24 = bytes(24)
_WORDS = struct.Struct(">24xQ24xQ32s32s24xQ12x20s32s32s")
"""Bedrock's call data: number, time, base fee, hash, sequence number, batcher, overhead and scalar."""
_PACKED, _FEES = struct.Struct(">IIQQQ32s32s32s12x20s"), struct.Struct(">IQH")
"""What all packed layouts have, then the operator fee of Isthmus and the footprint's scalar of Jovian."""


class L1InfoError(ValueError):
    """A block does not begin with L1 attributes in the layout that its time asks for [LIN15, LIN16]."""


class L1Info(msgspec.Struct, frozen=True):
    """The values of the L1 attributes.

    `overhead` and `scalar` are in Bedrock's layout alone [LIN12], the fee scalars in the packed ones [LIN13].
    `timestamp` in seconds, fees in wei."""

    number: int
    timestamp: int
    base_fee: int
    block_hash: Hash
    sequence_number: int
    batcher: Address
    overhead: Hash = ZERO_HASH
    scalar: Hash = ZERO_HASH
    base_fee_scalar: int = 0
    blob_base_fee_scalar: int = 0
    blob_base_fee: int = 0
    operator_fee_scalar: int = 0
    operator_fee_constant: int = 0
    da_footprint_gas_scalar: int = 0

    @property
    def origin(self) -> BlockId:
        """The L1 origin by number and hash."""
        return BlockId(self.number, self.block_hash)


def encode_l1_info(info: L1Info, layout: L1InfoFormat) -> bytes:
    """Return the call data in a layout [LIN12, LIN13]."""
    base_fee = info.base_fee.to_bytes(32, "big")
    if not layout.packed:
        values = (info.number, info.timestamp, base_fee, info.block_hash, info.sequence_number, info.batcher)
        return SELECTORS[layout] + _WORDS.pack(*values, info.overhead, info.scalar)
    data = SELECTORS[layout] + _PACKED.pack(
        info.base_fee_scalar,
        info.blob_base_fee_scalar,
        info.sequence_number,
        info.timestamp,
        info.number,
        base_fee,
        info.blob_base_fee.to_bytes(32, "big"),
        info.block_hash,
        info.batcher,
    )
    fees = _FEES.pack(info.operator_fee_scalar, info.operator_fee_constant, info.da_footprint_gas_scalar)
    return (data + fees)[: SIZES[layout]]


def parse_l1_info(data: bytes, layout: L1InfoFormat) -> L1Info:
    """Return the values in call data of this layout. Raises L1InfoError for any other layout."""
    name = layout.name.lower()
    if len(data) != SIZES[layout]:
        raise L1InfoError(f"{name} L1 info must have {SIZES[layout]} bytes, got {len(data)}")
    if data[:4] != SELECTORS[layout]:
        raise L1InfoError(f"{name} L1 info must have selector 0x{SELECTORS[layout].hex()}, got 0x{data[:4].hex()}")
    return _parse_packed(data, layout) if layout.packed else _parse_words(data)


def l1_info_deposit(info: L1Info, layout: L1InfoFormat, is_system: bool) -> bytes:
    """Return the first transaction of an L2 block; `is_system` before Regolith [LIN1, LIN2]."""
    return deposits.encode_deposit(
        deposits.DepositTransaction(
            source_hash=deposits.l1_info_source_hash(info.block_hash, info.sequence_number),
            sender=L1_ATTRIBUTES_DEPOSITOR,
            to=L1_BLOCK,
            mint=0,
            value=0,
            gas=_SYSTEM_GAS if is_system else _GAS,
            is_system=is_system,
            data=encode_l1_info(info, layout),
        )
    )


def l1_info_of_block(transactions: tuple[bytes, ...], layout: L1InfoFormat) -> L1Info:
    """Return the L1 attributes that begin a block, in the layout of its time [LIN15]. Raises L1InfoError."""
    if not transactions:
        raise L1InfoError("the block has no transactions, so no L1 info")
    try:
        deposit = deposits.decode_deposit(transactions[0])
    except deposits.DepositError as error:
        raise L1InfoError(f"the block's first transaction is no L1 info: {error}") from None
    return parse_l1_info(deposit.data, layout)


def _parse_words(data: bytes) -> L1Info:
    # ABI words of 64-bit values: their upper 24 bytes must be zero.
    for name, at in (("number", 4), ("time", 36), ("sequence number", 132)):
        if data[at : at + 24] != _PAD_24:
            raise L1InfoError(f"bedrock L1 info: {name} has more than 64 bits")
    if data[164:176] != _PAD_12:
        raise L1InfoError("bedrock L1 info: batcher address with non-zero upper bytes")
    number, timestamp, base_fee, *values = _WORDS.unpack_from(data, 4)
    return L1Info(number, timestamp, int.from_bytes(base_fee, "big"), *values)


def _parse_packed(data: bytes, layout: L1InfoFormat) -> L1Info:
    if data[132:144] != _PAD_12:
        raise L1InfoError(f"{layout.name.lower()} L1 info: batcher address with non-zero upper bytes")
    scalar, blob_scalar, sequence, timestamp, number, base_fee, blob_base_fee, *values = _PACKED.unpack_from(data, 4)
    operator_scalar, operator_constant, da_footprint = _FEES.unpack_from(
        data.ljust(SIZES[L1InfoFormat.JOVIAN], b"\0"), 164
    )
    return L1Info(
        number,
        timestamp,
        int.from_bytes(base_fee, "big"),
        values[0],
        sequence,
        values[1],
        base_fee_scalar=scalar,
        blob_base_fee_scalar=blob_scalar,
        blob_base_fee=int.from_bytes(blob_base_fee, "big"),
        operator_fee_scalar=operator_scalar,
        operator_fee_constant=operator_constant,
        da_footprint_gas_scalar=da_footprint,
    )
