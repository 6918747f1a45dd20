"""Differences of specs, op-node and kona between batch and block, and the side that the node takes [A1 to A16]."""

import json
from pathlib import Path

import msgspec
import pytest

from rollup_node.stages.derivation.reasons.l1 import ConfigUpdateMalformed
from rollup_node.stages.engine.calls.engine_api import ForkchoiceAnswer, ForkchoiceUpdate, PayloadAnswer
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.attributes import L1InfoCreationError, deposits_only, prepare_attributes
from rollup_node.stages.protocol.consolidation import ComparedField, first_mismatch
from rollup_node.stages.protocol.deposits import (
    DEPOSIT_TOPIC,
    DepositFailure,
    DepositTransaction,
    decode_deposit,
    deposit_from_log,
    upgrade_source_hash,
)
from rollup_node.stages.protocol.engine_json import encode_attributes
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.forks.bundles import BUNDLE_FORKS
from rollup_node.stages.protocol.forks.rules import L1InfoFormat, L1Rules
from rollup_node.stages.protocol.forks.schedule import ForkSchedule, fork_order_error
from rollup_node.stages.protocol.headers import encode_header, header_from_json, header_hash
from rollup_node.stages.protocol.l1_chains import L1_CHAINS
from rollup_node.stages.protocol.l1_info import L1Info, L1InfoError, l1_info_deposit, l1_info_of_block
from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.rlp import decode_list
from rollup_node.stages.protocol.system_config import MAX_U32, apply_updates, fee_scalars
from rollup_node.stages.protocol.types import Log
from rollup_node.stages.protocol.upgrade_transactions import carried_file, load_bundle
from tests.conformance.kit.cases import case
from tests.conformance.kit.chain import (
    FIRST_L1,
    GENESIS,
    L1_CHAIN,
    SYSTEM_CONFIG,
    config_log,
    forks_until,
    l1_time,
    rollup,
)
from tests.conformance.kit.engine import handler_with, sealed
from tests.conformance.kit.planning import USER, channel, plan, span
from tests.conformance.kit.rollup_chain import RollupChain

VECTORS = Path(__file__).parents[1] / "vectors" / "attributes.jsonl"
KARST_GAS, LAGOON_GAS = 55_370_657, load_bundle("lagoon").gas
PARAMS = bytes.fromhex("0000006400000002")


def word(value: int) -> bytes:
    """Return a number as one word."""
    return value.to_bytes(32, "big")


def update(kind: int, value: bytes, index: int = 0) -> Log:
    """Return a config log with one word."""
    return config_log(kind, word(32) + word(32) + value.rjust(32, b"\0"), index)


def derived(chain: RollupChain, count: int = 4) -> list[PayloadAttributes]:
    """Attributes of the first blocks, which are empty."""
    chain.mine(*channel("A", span(plan(GENESIS, count, ()))))
    result = [item.output for item in chain.run()]
    assert len(result) == count
    return [item.attributes for item in result if item is not None]


@case("differs_a01")
def source_hashes_of_jovian() -> None:
    """Op-node's and kona's; those of the specs begin with 98faf23b and so on."""
    result = [decode_deposit(raw).source_hash.hex()[:8] for raw in load_bundle("jovian").transactions]
    assert result == ["bb1a656f", "f3275f82", "239b7021", "a70c60aa", "e836db6a"]
    spec = ("L1Block Deployment", "L1Block Proxy Update", "GasPriceOracle Deployment", "GasPriceOracle Proxy Update")
    assert [upgrade_source_hash(f"Jovian: {item}").hex()[:8] for item in spec] == [
        *("98faf23b", "08447273", "d939cca6", "46b597e2")
    ]


@case("differs_a02")
def room_for_upgrade_transactions() -> None:
    """As later op-nodes: only in the activation block, for Karst unless the chain keeps it.

    Lagoon's wrappers always have room."""
    base = SYSTEM_CONFIG.gas_limit
    karst, lagoon = forks_until("jovian", karst=4), forks_until("karst", lagoon=4)
    for forks, gas, changes, kept in (
        (karst, KARST_GAS, {}, 0),
        (karst, KARST_GAS, {"keep_karst_upgrade_gas": True}, KARST_GAS),
        (lagoon, LAGOON_GAS, {"keep_karst_upgrade_gas": True}, 0),
        (lagoon, LAGOON_GAS, {"dependency_set_size": 2}, 0),
    ):
        limits = [item.gas_limit for item in derived(RollupChain(forks, **changes))]
        assert limits == [base, base + gas, base + kept, base + kept]


@case("differs_a03")
def parameters_in_the_activation_block_of_holocene() -> None:
    """An event in the L1 origin of that very block counts, and stays in force."""
    holocene = l1_time(FIRST_L1 + 1) - l1_time(FIRST_L1)
    chain = RollupChain(forks_until("granite", holocene=holocene))
    chain.mine(updates=[update(4, PARAMS)])
    result = derived(chain, 8)
    assert [item.eip1559_params for item in result] == [None] * 5 + [PARAMS] * 3
    chain = RollupChain(forks_until("granite", holocene=holocene + 2))
    chain.mine(updates=[update(4, PARAMS)])
    assert [item.eip1559_params for item in derived(chain, 8)][6:] == [bytes(8), bytes.fromhex("000000fa00000006")]


@case("differs_a04")
def malformed_config_updates() -> None:
    """Only the malformed update is skipped, in derivation and in attributes."""
    chain = RollupChain(forks_until("granite"))
    chain.mine(updates=[update(2, word(40_000_000)), config_log(2, b"\1", 1), update(9, b"", 2)])
    assert [item.gas_limit for item in derived(chain, 6)] == [30_000_000] * 5 + [40_000_000]
    assert chain.take_drops() == [(DropEffect.IGNORED, ConfigUpdateMalformed)] * 2


@case("differs_a05")
def checks_of_eip1559_updates() -> None:
    """Denominator and elasticity are both zero or both not.

    The bytes above them are not checked, nor is the value of an unsafe block signer update. A log has three topics
    of 32 bytes."""
    for value, skipped in (
        (PARAMS, None),
        (bytes(8), None),
        (b"\xff" * 24 + PARAMS, None),
        (bytes.fromhex("0000006400000000"), "denominator and elasticity must both"),
        (bytes.fromhex("0000000000000002"), "denominator and elasticity must both"),
    ):
        result, problems = apply_updates(SYSTEM_CONFIG, [update(4, value)], L1Rules())
        assert [problem.text[:36] for problem in problems] == ([skipped] if skipped else [])
        assert result.eip1559_params == (bytes(8) if skipped else value[-8:])
    assert apply_updates(SYSTEM_CONFIG, [config_log(3, b"anything")], L1Rules()) == (SYSTEM_CONFIG, ())
    log = update(4, PARAMS)
    for topics, text in (
        ((*log.topics, bytes(32)), "expected 3 event topics"),
        ((*log.topics[:2], b"\1" + log.topics[2][1:]), "unknown SystemConfig event type"),
    ):
        _, (skip,) = apply_updates(SYSTEM_CONFIG, [msgspec.structs.replace(log, topics=topics)], L1Rules())
        assert skip.text.startswith(text)


@case("differs_a06")
def scalars_with_bad_padding_or_version() -> None:
    """In force, a padded version 0 means the highest scalar and anything else stops; as an update from Ecotone on, both
    change nothing."""
    padded = b"\0\1" + bytes(26) + b"\0\0\0\7"
    assert fee_scalars(padded) == (MAX_U32, 0)
    rules = rollup(forks_until("ecotone")).schedule().l1(l1_time(FIRST_L1))
    for scalar in (padded, b"\2" + bytes(31), b"\1\1" + bytes(30)):
        log = config_log(1, word(32) + word(64) + word(5) + scalar)
        assert apply_updates(SYSTEM_CONFIG, [log], rules) == (SYSTEM_CONFIG, ())
        before, _ = apply_updates(SYSTEM_CONFIG, [log], L1Rules())
        assert before.scalar == scalar
    bad = msgspec.structs.replace(SYSTEM_CONFIG, scalar=b"\2" + bytes(31))
    config = rollup(forks_until("ecotone"))
    header = RollupChain(forks_until("ecotone")).l1[FIRST_L1].header
    with pytest.raises(L1InfoCreationError, match="unknown version 2"):
        prepare_attributes(config, L1_CHAIN, GENESIS, bad, header, (), ())


@case("differs_a07")
def strictness_of_deposit_logs() -> None:
    """Upper bytes of addresses and padding do not matter, spare words do; a mint may have 256 bits."""
    opaque = word(1 << 200) + word(5) + (100_000).to_bytes(8, "big") + b"\0" + b"\xaa\xbb"
    data = word(32) + word(len(opaque)) + opaque
    padding = -len(data) % 32
    topics = (DEPOSIT_TOPIC, b"\xff" * 12 + b"\x22" * 20, b"\xee" * 12 + b"\x33" * 20, bytes(32))

    def read(tail: bytes) -> DepositTransaction | DepositFailure:
        return deposit_from_log(Log(b"\xde" * 20, topics, data + tail, 3), bytes(32))

    result = read(b"\x99" * padding)
    assert isinstance(result, DepositTransaction)
    assert (result.sender, result.to, result.mint, result.data) == (b"\x22" * 20, b"\x33" * 20, 1 << 200, b"\xaa\xbb")
    spare = read(bytes(padding + 32))
    assert isinstance(spare, DepositFailure) and "header length" in spare.text


@case("differs_a08")
def layout_of_l1_info_when_read() -> None:
    """The layout follows from the block's time, and the selector in the data must match it."""
    info = L1Info(7, 8, 9, bytes(32), 0, b"\xba" * 20)
    packed = l1_info_deposit(info, L1InfoFormat.ECOTONE, False)
    assert l1_info_of_block((packed,), L1InfoFormat.ECOTONE).number == 7
    for layout in (L1InfoFormat.BEDROCK, L1InfoFormat.ISTHMUS, L1InfoFormat.JOVIAN):
        with pytest.raises(L1InfoError):
            l1_info_of_block((packed,), layout)


def compared(fork: str, attributes: dict[str, object], block: dict[str, object]) -> ComparedField | None:
    """Return the first difference between a block and its attributes after changes to both."""
    chain = RollupChain(forks_until(fork))
    chain.mine(*channel("A", plan(GENESIS, 1)[0].singular))
    output = chain.run()[0].output
    assert output is not None
    payload: ExecutionPayload = msgspec.structs.replace(sealed(chain.config, GENESIS, output.attributes), **block)
    changed = msgspec.structs.replace(output.attributes, **attributes)
    result = first_mismatch(chain.config, changed, GENESIS.hash, payload)
    return None if result is None else result.field


@case("differs_a09")
def what_consolidation_compares() -> None:
    assert compared("jovian", {}, {}) is None
    assert compared("jovian", {"min_base_fee": 1}, {}) is ComparedField.MIN_BASE_FEE
    assert compared("jovian", {"eip1559_params": bytes.fromhex("0000000100000000")}, {}) is ComparedField.EIP1559_PARAMS
    assert compared("granite", {}, {"extra_data": b"\1"}) is ComparedField.EXTRA_DATA
    for root in (None, EMPTY_ROOT):
        assert compared("canyon", {}, {"withdrawals_root": root}) is None
    assert compared("canyon", {}, {"withdrawals_root": b"\1" * 32}) is ComparedField.WITHDRAWALS_ROOT
    chain = RollupChain(forks_until("granite"))
    chain.mine(*channel("A", plan(GENESIS, 1)[0].singular))
    first, user = chain.run()[0].transactions
    assert user == USER
    longer = b"\xf9" + (len(USER) - 2).to_bytes(2, "big") + USER[2:]
    assert compared("granite", {}, {"transactions": (first, longer)}) is ComparedField.TRANSACTION


@case("differs_a10")
def minimum_base_fee_as_json() -> None:
    chain = RollupChain(forks_until("jovian"))
    chain.mine(updates=[update(6, word(1_000_000_000))])
    last = derived(chain, 6)[-1]
    assert json.loads(encode_attributes(last))["minBaseFee"] == 1_000_000_000


@case("differs_a11")
def upgrade_transactions_of_interop() -> None:
    """Those of op-node's bundle under its old name, with wrappers where there are other chains; not the specs' list."""
    entries = carried_file("lagoon", BUNDLE_FORKS["lagoon"].carried[0]).entries
    expected = [upgrade_source_hash(f"Interop {index}: {entry.intent}") for index, entry in enumerate(entries)]
    for size in (1, 2):
        chain = RollupChain(forks_until("karst", lagoon=2), dependency_set_size=size)
        hashes = [decode_deposit(raw).source_hash for raw in derived(chain, 1)[0].transactions[1:]]
        assert (hashes[1:-1] if size > 1 else hashes) == expected
        if size > 1:
            assert (hashes[0].hex()[:8], hashes[-1].hex()[:8]) == ("22ad3660", "6643cb07")
    assert upgrade_source_hash("Interop 0: Deploy StorageSetter Implementation").hex()[:8] == "d0c91a4c"


@case("differs_a12")
def forks_stand_alone_and_in_order() -> None:
    """A later fork does not bring an earlier one with it.

    The order is checked to the last fork, as later op-nodes do."""
    schedule = ForkSchedule({"ecotone": 0}, 2, 300, 600)
    assert schedule.l2(10).beacon_root and not schedule.l2(10).withdrawals
    assert not schedule.l1(10).span_batches
    times = {name: 5 for name in forks_until("isthmus") if name != "bedrock"}
    assert fork_order_error(times, 0) is None
    assert fork_order_error({**times, "karst": 9}, 0) is not None
    assert fork_order_error({**times, "jovian": 9, "karst": 8}, 0) is not None
    assert fork_order_error({**times, "jovian": 9, "karst": 9}, 0) is not None
    assert fork_order_error({**times, "jovian": 9, "karst": 9}, 9) is None


@case("differs_a13")
def pectra_correction_time_beside_later_blob_schedules() -> None:
    """Until that time the blob schedule is Cancun's, even if later schedules activate before."""
    sepolia = L1_CHAINS[11_155_111]
    osaka, prague = sepolia.blob_fork("osaka"), sepolia.blob_fork("prague")
    assert osaka is not None and prague is not None
    late = osaka.time + 100
    assert sepolia.update_fraction(osaka.time + 99, late) == 3_338_477
    assert sepolia.update_fraction(late, late) == osaka.update_fraction
    assert sepolia.update_fraction(prague.time, None) == prague.update_fraction != 3_338_477


@case("differs_a14")
def fields_of_the_first_amsterdam_header() -> None:
    lines = map(json.loads, VECTORS.read_text().splitlines())
    (vector,) = [line for line in lines if line.get("id") == "header-l1-amsterdam"]
    header = header_from_json(vector["given"])
    assert len(decode_list(encode_header(header))) == 23
    assert "0x" + header_hash(header).hex() == vector["want"]
    older = msgspec.structs.replace(header, block_access_list_hash=None, slot_number=None)
    assert len(decode_list(encode_header(older))) == 21
    assert header_hash(older).hex().startswith("3d3fa9c0")


@case("differs_a15")
def deposits_refused_by_new_payload() -> None:
    """The node follows the specs: op-node would request the same block for ever."""
    chain = RollupChain(forks_until("holocene"))
    chain.mine(*channel("A", plan(GENESIS, 1, ())[0].singular))
    output = chain.run()[0].output
    assert output is not None
    handler = handler_with(chain.config, output)
    payload = sealed(chain.config, GENESIS, output.attributes)
    for answer in (ForkchoiceAnswer("VALID", b"payload1"), payload):
        call = handler.next()
        assert call is not None and handler.answer(call, answer) is None
    call = handler.next()
    assert call is not None
    with pytest.raises(CriticalError, match="only deposit transactions"):
        handler.answer(call, PayloadAnswer("INVALID"))


@case("differs_a16")
def transactions_that_the_engine_leaves_out_or_cannot_read() -> None:
    """The node follows the specs: op-node would take the block without them, or request it for ever."""
    for raw in (USER, b"\x02\xc0"):
        chain = RollupChain(forks_until("holocene"))
        chain.mine(*channel("A", plan(GENESIS, 1, (raw,))[0].singular))
        output = chain.run()[0].output
        assert output is not None and output.attributes.transactions[-1] == raw
        handler = handler_with(chain.config, output)
        deposits = deposits_only(output.attributes)
        assert handler.check() is None
        if raw == USER:
            for answer in (ForkchoiceAnswer("VALID", b"payload1"), sealed(chain.config, GENESIS, deposits)):
                call = handler.next()
                assert call is not None and handler.answer(call, answer) is None
        call = handler.next()
        assert isinstance(call, ForkchoiceUpdate) and call.attributes == deposits
