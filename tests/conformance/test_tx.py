"""Which L1 transactions are the batcher's: type, recipient, signature and sender, in this order [BF1 to BF6]."""

from collections.abc import Callable

import pytest

from rollup_node.stages.derivation.pipeline.outputs import NeedL1Block
from rollup_node.stages.derivation.reasons.l1 import FramesEmpty, SenderNotBatcher
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.deposits import DepositTransaction, encode_deposit
from rollup_node.stages.protocol.transactions import inbox_transactions
from rollup_node.stages.protocol.types import Address
from rollup_node.tools.batcher.channels import Frame, batcher_data
from tests.conformance.kit.cases import case, table
from tests.conformance.kit.chain import INBOX, L1_CHAIN_ID, STRANGER, batcher_update, forks_until
from tests.conformance.kit.ingestion import IngestionHarness
from tests.conformance.kit.l1_endpoint import EndpointTransaction, L1Endpoint
from tests.conformance.kit.l1_transactions import (
    ACCESS_LIST,
    DATA,
    DYNAMIC_FEE,
    LEGACY,
    OTHER_SECRET,
    OTHER_SIGNER,
    SET_CODE,
    SIGNER,
    high_s,
    signed,
    zero_r,
)
from tests.conformance.kit.notation import channel_id, item
from tests.conformance.kit.rollup_chain import RollupChain

pytestmark = pytest.mark.fault("F23")

ECOTONE = forks_until("ecotone")


def naming(address: Address) -> bytes:
    """Return a channel with an address in its frame data, which is not the recipient."""
    return batcher_data([Frame(channel_id("A"), 0, address, True)])


def read(transaction: bytes, inbox: Address = INBOX) -> tuple[list[str], list[Dropped]]:
    """Return the channels in an L1 block with this transaction and a good one behind it, and what is dropped."""
    good = signed(DYNAMIC_FEE, to=inbox, data=item("Z0!"))
    harness = IngestionHarness(ECOTONE)
    harness.batcher = SIGNER
    result = harness.read(*inbox_transactions((transaction, good), inbox, L1_CHAIN_ID))
    return result, harness.dropped


@table(
    tx_legacy_ok=lambda: signed(LEGACY),
    tx_acl_ok=lambda: signed(ACCESS_LIST),
    tx_dynfee_ok=lambda: signed(DYNAMIC_FEE),
    tx_unprotected_legacy=lambda: signed(LEGACY, protected=False),
    tx_value_tx=lambda: signed(DYNAMIC_FEE, value=10**18),
    tx_deposit_type=lambda: encode_deposit(DepositTransaction(bytes(32), SIGNER, INBOX, 0, 0, 1, False, DATA)),
)
def used(transaction: Callable[[], bytes]) -> None:
    assert read(transaction()) == (["A0", "Z0"], [])


@table(
    tx_setcode=lambda: signed(SET_CODE),
    tx_type5=lambda: signed(5),
    tx_create=lambda: signed(DYNAMIC_FEE, to=None, data=naming(INBOX)),
    tx_other_inbox=lambda: signed(DYNAMIC_FEE, to=b"\xfe" * 20, data=naming(INBOX)),
    tx_wrong_chainid_155=lambda: signed(LEGACY, chain_id=L1_CHAIN_ID + 1),
    tx_wrong_chainid_typed=lambda: signed(DYNAMIC_FEE, chain_id=L1_CHAIN_ID + 1),
    tx_high_s=lambda: signed(DYNAMIC_FEE, change=high_s),
    tx_zero_r=lambda: signed(DYNAMIC_FEE, change=zero_r),
)
def ignored(transaction: Callable[[], bytes]) -> None:
    """No drop is recorded: the l1 process filters these out."""
    assert read(transaction()) == (["Z0"], [])
    assert inbox_transactions([transaction()], INBOX, L1_CHAIN_ID) == ()


@case("tx_other_sender")
def from_a_stranger() -> None:
    result, (dropped,) = read(signed(DYNAMIC_FEE, secret=OTHER_SECRET))
    assert result == ["Z0"]
    assert dropped.effect is DropEffect.IGNORED
    assert dropped.reason == SenderNotBatcher(OTHER_SIGNER, SIGNER)


@case("tx_author_is_inbox")
def inbox_and_batcher_exchanged() -> None:
    """The inbox has a key here: it sends to the batcher."""
    transaction = signed(DYNAMIC_FEE, to=SIGNER, data=naming(OTHER_SIGNER), secret=OTHER_SECRET)
    assert read(transaction, inbox=OTHER_SIGNER) == (["Z0"], [])


@case("tx_reverted_tx")
def failed_on_l1() -> None:
    """The block has a config event as well, so that the receipts are fetched."""
    endpoint = L1Endpoint()
    event = EndpointTransaction(signed(DYNAMIC_FEE, to=b"\1" * 20, nonce=1), (batcher_update(STRANGER),))
    block = endpoint.add(EndpointTransaction(signed(DYNAMIC_FEE), succeeded=False), event)
    verified = endpoint.verified(block.number)
    assert len(verified.config_updates) == 1
    harness = IngestionHarness(ECOTONE)
    harness.batcher = SIGNER
    assert harness.read(*verified.inbox) == ["A0"]


@case("tx_empty_data")
def without_data() -> None:
    result, (dropped,) = read(signed(DYNAMIC_FEE, data=b""))
    assert (result, dropped.reason) == (["Z0"], FramesEmpty())


@case("tx_empty_block")
def without_transactions() -> None:
    chain = RollupChain(forks_until("ecotone"))
    chain.mine()
    assert chain.run() == []
    assert chain.last_output == NeedL1Block(chain.head + 1)
    assert chain.take_reasons() == []
