"""The system config: how L1 events change it, and how it is read back from L2 blocks [SYS1 to SYS46]."""

from collections.abc import Iterable

import msgspec

from rollup_node.stages.protocol.config import ChainOpConfig, RollupConfig, SystemConfig
from rollup_node.stages.protocol.forks.rules import L1InfoFormat, L1Rules, L2Rules
from rollup_node.stages.protocol.l1_info import L1Info, L1InfoError, l1_info_of_block
from rollup_node.stages.protocol.types import U64_MASK, ZERO_HASH, Hash, Log, MalformedLog
from rollup_node.stages.protocol.upgrade_transactions import upgrade_gas_to_subtract


class ExtraDataError(ValueError):
    """The extraData does not have the form that the block's time asks for."""


class ExtraData(msgspec.Struct, frozen=True):
    """The values in extraData: zeros before Holocene; `min_base_fee` in wei, None before Jovian."""

    denominator: int = 0
    elasticity: int = 0
    min_base_fee: int | None = None

    @property
    def params(self) -> bytes:
        """Denominator and elasticity as in the system config: four bytes each."""
        return self.denominator.to_bytes(4, "big") + self.elasticity.to_bytes(4, "big")


def decode_extra_data(data: bytes, rules: L2Rules) -> ExtraData:
    """Return the values in the extraData of a sealed block. Raises ExtraDataError."""
    if not rules.eip1559_params:
        if data:
            raise ExtraDataError("extraData must be empty before Holocene")
        return ExtraData()
    version, size = (1, 17) if rules.min_base_fee else (0, 9)
    if len(data) != size:
        raise ExtraDataError(f"extraData must have {size} bytes, got {len(data)}")
    if data[0] != version:
        raise ExtraDataError(f"extraData must have version {version}, got {data[0]}")
    denominator, elasticity = int.from_bytes(data[1:5], "big"), int.from_bytes(data[5:9], "big")
    if denominator == 0:
        raise ExtraDataError("extraData must have a non-zero EIP-1559 denominator")
    if elasticity == 0:
        raise ExtraDataError("extraData must have a non-zero EIP-1559 elasticity")
    return ExtraData(denominator, elasticity, int.from_bytes(data[9:17], "big") if rules.min_base_fee else None)


def encode_extra_data(params: bytes | None, min_base_fee: int | None, constants: ChainOpConfig) -> bytes:
    """Return the extraData that an engine writes for the EIP-1559 parameters and the minimum base fee of attributes."""
    if params is None:
        return b""
    body = effective_params(params, constants)
    return b"\x00" + body if min_base_fee is None else b"\x01" + body + min_base_fee.to_bytes(8, "big")


def effective_params(params: bytes, constants: ChainOpConfig) -> bytes:
    """Return the parameters of attributes with 0,0 replaced by the chain's constants [ATT23]."""
    if any(params):
        return params
    denominator = constants.eip1559_denominator_canyon or constants.eip1559_denominator
    return denominator.to_bytes(4, "big") + constants.eip1559_elasticity.to_bytes(4, "big")


CONFIG_UPDATE_TOPIC: Hash = bytes.fromhex("1d2b0bda21d56b8bd12d4f94ebacffdfb35f5e226f84b461103bb8beab6353be")
MAX_U32 = 0xFFFFFFFF

_WORD_32 = (32).to_bytes(32, "big")


class ScalarError(ValueError):
    """A fee scalar word that has no meaning from Ecotone on [SYS5, SYS6]."""


class BlockConfigError(ValueError):
    """A block from which no system config can be read [SYS28, SYS29, SYS32, SYS33]."""


class _SkipUpdateError(ValueError):
    """The update is malformed."""


def fee_scalars(scalar: Hash) -> tuple[int, int]:
    """Return (base fee scalar, blob base fee scalar) of a word from Ecotone on [SYS2 to SYS6]. Raises ScalarError."""
    version = scalar[0]
    if version == 0:
        return (MAX_U32 if any(scalar[1:28]) else int.from_bytes(scalar[28:], "big")), 0
    if version == 1 and not any(scalar[1:24]):
        return int.from_bytes(scalar[28:], "big"), int.from_bytes(scalar[24:28], "big")
    text = "padding is not zero" if version == 1 else f"unknown version {version}"
    raise ScalarError(f"invalid fee scalar 0x{scalar.hex()}: {text}")


def packed_scalar(base_fee_scalar: int, blob_base_fee_scalar: int) -> Hash:
    """Return the version 1 scalar word [SYS4]."""
    return b"\x01" + bytes(23) + blob_base_fee_scalar.to_bytes(4, "big") + base_fee_scalar.to_bytes(4, "big")


def _is_strict_scalar(scalar: Hash) -> bool:
    """Whether an update from Ecotone on may store it [SYS21]: stricter than `fee_scalars`, which reads SYS3 as well."""
    return not any(scalar[1:28]) if scalar[0] == 0 else scalar[0] == 1 and not any(scalar[1:24])


def apply_updates(
    config: SystemConfig, logs: Iterable[Log], rules: L1Rules
) -> tuple[SystemConfig, tuple[MalformedLog, ...]]:
    """Return the config after an L1 block's updates, by the `rules` of its time, and those malformed [SYS9]."""
    skipped: list[MalformedLog] = []
    for log in logs:
        try:
            config = _apply_update(config, log, rules)
        except _SkipUpdateError as error:
            skipped.append(MalformedLog(log.index, str(error)))
    return config, tuple(skipped)


def _apply_update(config: SystemConfig, log: Log, rules: L1Rules) -> SystemConfig:
    if len(log.topics) != 3:
        raise _SkipUpdateError(f"expected 3 event topics, got {len(log.topics)}")
    # Version and type are compared as whole words, not by their low bytes [SYS10].
    event, version, kind = log.topics
    if event != CONFIG_UPDATE_TOPIC:
        raise _SkipUpdateError(f"invalid SystemConfig update event: 0x{event.hex()}")
    if version != ZERO_HASH:
        raise _SkipUpdateError(f"unrecognized SystemConfig update event version: 0x{version.hex()}")
    match int.from_bytes(kind, "big"):
        case 0:
            return msgspec.structs.replace(config, batcher=_padded(_words(log.data, 1), 20))
        case 1:
            return _with_fee_scalars(config, _words(log.data, 2), rules)
        case 2:
            return msgspec.structs.replace(config, gas_limit=_number(_words(log.data, 1), 8))
        case 3:
            return config  # the unsafe block signer: not even its data are checked [SYS15]
        case 4:
            return msgspec.structs.replace(config, eip1559_params=_eip1559_params(_words(log.data, 1)))
        case 5:
            return msgspec.structs.replace(config, operator_fee_params=_words(log.data, 1))
        case 6:
            return msgspec.structs.replace(config, min_base_fee=_number(_words(log.data, 1), 8))
        case 7:
            return msgspec.structs.replace(config, da_footprint_gas_scalar=_number(_words(log.data, 1), 2))
    raise _SkipUpdateError(f"unknown SystemConfig event type 0x{kind.hex()}")


def _words(data: bytes, count: int) -> bytes:
    """Return the `count` words in an ABI-encoded `bytes` value, which must be all of the data [SYS11]."""
    size = 32 * count
    if len(data) < 32:
        raise _SkipUpdateError(f"update data ends in its pointer: {len(data)} bytes")
    if data[:32] != _WORD_32:
        raise _SkipUpdateError(f"invalid pointer in update data: 0x{data[:32].hex()}")
    if len(data) < 64:
        raise _SkipUpdateError(f"update data ends in its length: {len(data)} bytes")
    if data[32:64] != size.to_bytes(32, "big"):
        raise _SkipUpdateError(f"invalid length in update data: 0x{data[32:64].hex()}, expected {size}")
    if len(data) < 64 + size:
        raise _SkipUpdateError(f"update data cut off: {len(data)} bytes")
    if len(data) > 64 + size:
        raise _SkipUpdateError(f"{len(data) - 64 - size} bytes after the update data")
    return data[64:]


def _padded(word: Hash, size: int) -> bytes:
    if any(word[:-size]):
        raise _SkipUpdateError(f"value has more than {size} bytes: 0x{word.hex()}")
    return word[-size:]


def _number(word: Hash, size: int) -> int:
    return int.from_bytes(_padded(word, size), "big")


def _eip1559_params(word: Hash) -> bytes:
    # The upper 24 bytes may hold anything [SYS23].
    params = word[24:]
    if any(params[:4]) != any(params[4:]):
        raise _SkipUpdateError(f"denominator and elasticity must both be zero or not: 0x{params.hex()}")
    return params


def _with_fee_scalars(config: SystemConfig, words: bytes, rules: L1Rules) -> SystemConfig:
    overhead, scalar = words[:32], words[32:]
    if not rules.packed_fee_scalars:
        return msgspec.structs.replace(config, overhead=overhead, scalar=scalar)
    # No error: op-node ignores such a scalar, and the next update is still read [SYS21].
    if not _is_strict_scalar(scalar):
        return config
    return msgspec.structs.replace(config, overhead=ZERO_HASH, scalar=scalar)


def system_config_of_block(
    config: RollupConfig,
    *,
    number: int,
    block_hash: Hash,
    timestamp: int,
    gas_limit: int,
    extra_data: bytes,
    transactions: tuple[bytes, ...],
) -> SystemConfig:
    """Return the system config that an L2 block carries [SYS27 to SYS39]. Raises BlockConfigError."""
    genesis = config.genesis
    if number == genesis.l2.number:
        if block_hash != genesis.l2.hash:
            raise BlockConfigError(
                "expected L2 genesis hash to match L2 block at genesis block number "
                f"{number}: 0x{block_hash.hex()} <> 0x{genesis.l2.hash.hex()}"
            )
        return genesis.system_config
    schedule = config.schedule()
    layout = schedule.l1_info_format(timestamp)
    try:
        info = l1_info_of_block(transactions, layout)
        extra = decode_extra_data(extra_data, schedule.l2(timestamp))
    except (L1InfoError, ExtraDataError) as error:
        raise BlockConfigError(str(error)) from None
    upgrade_gas = upgrade_gas_to_subtract(config, schedule.activations(timestamp))
    if gas_limit < upgrade_gas:
        raise BlockConfigError(f"activation block gas limit {gas_limit} below upgrade gas {upgrade_gas}")
    return _from_parts(info, layout, extra, gas_limit - upgrade_gas)


def _from_parts(info: L1Info, layout: L1InfoFormat, extra: ExtraData, gas_limit: int) -> SystemConfig:
    """Values that the layout does not carry become zero [SYS40 to SYS44]."""
    operator_fee = info.operator_fee_scalar << 64 | info.operator_fee_constant
    return SystemConfig(
        batcher=info.batcher,
        overhead=info.overhead,
        scalar=packed_scalar(info.base_fee_scalar, info.blob_base_fee_scalar) if layout.packed else info.scalar,
        gas_limit=gas_limit & U64_MASK,
        eip1559_params=extra.params,
        operator_fee_params=operator_fee.to_bytes(32, "big"),
        min_base_fee=extra.min_base_fee or 0,
        da_footprint_gas_scalar=info.da_footprint_gas_scalar,
    )
