"""The blocks and payloads that targets mutate agree with their own hashes and roots."""

from rollup_node.stages.l1.tasks import NeedsReceipts, Verified, VerifyBlock, VerifyReceipts, run
from rollup_node.stages.protocol.block_refs import l2_ref_of_payload
from rollup_node.stages.protocol.config_json import parse_rollup_config
from rollup_node.stages.protocol.mpt import verify_account, verify_storage
from rollup_node.stages.protocol.payloads import payload_block_hash
from rollup_node.tools.fuzz.targets import chain_seeds
from rollup_node.tools.fuzz.targets.configuration import _rollup_configs


def test_the_l1_block_is_verified_with_its_receipts() -> None:
    seed = chain_seeds.l1_seed()
    block = run(VerifyBlock(chain_seeds.NUMBER, chain_seeds.answer(seed.block), False, chain_seeds.L1_FILTER))
    assert isinstance(block, NeedsReceipts)
    found = run(VerifyReceipts(block.block, chain_seeds.answer(seed.receipts), chain_seeds.L1_FILTER))
    assert isinstance(found, Verified)
    assert len(found.block.config_updates) == 1


def test_payloads_have_their_hashes_and_an_origin() -> None:
    for version in (1, 2, 3, 4):
        payload = chain_seeds.payload(version)
        assert payload.block_hash == payload_block_hash(payload)
        assert l2_ref_of_payload(chain_seeds.rollup(), payload).l1_origin.number == chain_seeds.NUMBER


def test_proofs_hold() -> None:
    account = verify_account(chain_seeds.STATE_ROOT, bytes(20), [chain_seeds.ACCOUNT_NODE])
    assert account is not None
    assert verify_storage(account.storage_root, bytes(32), [chain_seeds.SLOT_NODE]) == 5


def test_configs_are_read() -> None:
    assert parse_rollup_config(_rollup_configs()[0]).config == chain_seeds.rollup()
