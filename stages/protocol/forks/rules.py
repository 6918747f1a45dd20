"""One record per clock: everything that any fork changes. Code asks a rule, never a fork's name."""

from enum import IntEnum
from typing import Literal

import msgspec


class L1InfoFormat(IntEnum):
    """Layouts of the L1 attributes call data (attributes-rules 2.2), oldest first."""

    BEDROCK = 0
    ECOTONE = 1
    ISTHMUS = 2
    JOVIAN = 3

    @property
    def packed(self) -> bool:
        """Whether fees stand in packed scalars, as in all layouts after the first."""
        return self > L1InfoFormat.BEDROCK

    @property
    def operator_fee(self) -> bool:
        """Whether the operator fee's scalar and constant are in it."""
        return self >= L1InfoFormat.ISTHMUS

    @property
    def da_footprint(self) -> bool:
        """Whether the gas scalar of the data availability footprint is in it."""
        return self >= L1InfoFormat.JOVIAN


class L1Rules(msgspec.Struct, frozen=True):
    """Judged by the time of the L1 block being read (`origin`, also the inclusion block of what is read)."""

    blobs_as_data: bool = False
    channel_timeout: int = 300
    max_channel_bank_size: int = 100_000_000
    max_rlp_bytes_per_channel: int = 10_000_000
    brotli: bool = False
    read_any_ready_channel: bool = False
    span_batches: bool = False
    contiguous_frames: bool = False
    channel_stage: Literal["bank", "assembler"] = "bank"
    batch_stage: Literal["queue", "stage"] = "queue"
    strict_batch_times: bool = False
    replace_invalid_payloads: bool = False
    packed_fee_scalars: bool = False


class EpochRules(msgspec.Struct, frozen=True):
    """Judged by the time of the L1 origin of the L2 block."""

    max_sequencer_drift: int = 600
    span_batches: bool = False


class L2Rules(msgspec.Struct, frozen=True):
    """Judged by the L2 block's own time. `activation_*` rules hold in the fork's first block only; the schedule
    answers for them with the forks that activate in a block. `da_footprint` says what blobGasUsed holds."""

    system_deposits: bool = True
    withdrawals: bool = False
    beacon_root: bool = False
    eip1559_params: bool = False
    min_base_fee: bool = False
    da_footprint: bool = False
    operator_fee: bool = False
    withdrawals_root: bool = False
    set_code_transactions: bool = False
    post_exec_transactions: bool = False
    attributes_version: int = 1
    new_payload_version: int = 2
    get_payload_version: int = 2
    block_topic_version: int = 1


class Activation(msgspec.Struct, frozen=True):
    """What a fork does in its activation block: upgrade transactions by bundle name, room for them, and
    whether the sequencer must, or derivation must, keep user transactions out. The room is taken back in the next
    block, unless the chain keeps it (attributes-rules 4.4)."""

    fork: str
    bundle: str | None = None
    extra_gas: bool = False
    extra_gas_may_be_kept: bool = False
    sequencer_leaves_empty: bool = False
    user_transactions_refused: bool = False
