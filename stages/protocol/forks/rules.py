"""The rules that forks change, one record per clock. Code asks for a rule and never for a fork by name.

The defaults are Bedrock's rules; table.py says which fork changes which field."""

from dataclasses import dataclass
from enum import IntEnum


class L1InfoFormat(IntEnum):
    """Layouts of the L1 attributes call data, oldest first [LIN5 to LIN8]."""

    BEDROCK = 0
    ECOTONE = 1
    ISTHMUS = 2
    JOVIAN = 3

    @property
    def packed(self) -> bool:
        """Whether the fields are packed and the fee scalars separate, as in every layout after Bedrock's [LIN13]."""
        return self > L1InfoFormat.BEDROCK


@dataclass(frozen=True, slots=True)
class L1Rules:
    """Rules by the time of the L1 block being read: the pipeline's origin, and the inclusion block of its data."""

    blobs_as_data: bool = False  # [CK8]
    channel_timeout: int = 300  # in L1 blocks; the rollup config's value takes the default's place [CK4]
    max_channel_bank_size: int = 100_000_000  # in bytes [CK5]
    max_rlp_bytes_per_channel: int = 10_000_000  # [CK6]
    brotli: bool = False  # [CK7]
    read_any_ready_channel: bool = False  # [CK9]
    span_batches: bool = False  # let through by the channel reader [CK10]
    contiguous_frames: bool = False  # [CK12]
    batch_stage: bool = False  # and the channel assembler, instead of batch queue and channel bank [CK12]
    strict_batch_times: bool = False  # future and past batches are dropped instead of kept [CK12]
    replace_invalid_payloads: bool = False  # by their deposits alone [ATT34]
    packed_fee_scalars: bool = False  # in updates of the system config [SYS21]


@dataclass(frozen=True, slots=True)
class EpochRules:
    """Rules by the time of the L2 block's L1 origin."""

    max_sequencer_drift: int = 600  # in seconds; the rollup config's value takes the default's place [CK13]
    span_batches: bool = False  # valid at all [CK11]


@dataclass(frozen=True, slots=True)
class L2Rules:
    """Rules by the L2 block's own time. What holds in a fork's first block only is an Activation."""

    system_deposits: bool = True  # the L1 attributes deposit is a system transaction [LIN2]
    withdrawals: bool = False  # [ATT14]
    beacon_root: bool = False  # [ATT15]
    eip1559_params: bool = False  # in attributes and extraData [ATT19, SYS37]
    min_base_fee: bool = False  # in attributes and extraData [ATT20, SYS38]
    da_footprint: bool = False  # blobGasUsed holds the DA footprint instead of 0 [HSH16]
    withdrawals_root: bool = False  # the header's is the message passer's storage root [HSH11]
    set_code_transactions: bool = False  # [CK14]
    post_exec_transactions: bool = False  # [CK15]
    attributes_version: int = 1  # of engine_forkchoiceUpdated [ENG2]
    new_payload_version: int = 2  # [ENG3]
    get_payload_version: int = 2  # [ENG4]
    block_topic_version: int = 1  # [GSP1]


@dataclass(frozen=True, slots=True)
class Activation:
    """What a fork does in its activation block alone."""

    fork: str
    bundle: str | None = None  # name of its upgrade transactions [ATT9]
    wrapped_if_linked: bool = False  # its dependency set adds a transaction before and after the bundle [UPG18]
    extra_gas: bool = False  # the gas of the bundle is added to the block's limit [ATT25]
    extra_gas_may_be_kept: bool = False  # if the rollup config says so, else the next block subtracts it [ATT27]
    sequencer_no_tx_pool: bool = False  # a sequencer builds it from deposits alone [ATT24]
    user_transactions_refused: bool = False  # derivation drops a batch with transactions for it [ATT10]
