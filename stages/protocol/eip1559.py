"""A block's extraData: EIP-1559 parameters from Holocene on, a minimum base fee from Jovian on [SYS36 to SYS39]."""

import msgspec

from rollup_node.stages.protocol.config import ChainOpConfig
from rollup_node.stages.protocol.forks.rules import L2Rules


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
