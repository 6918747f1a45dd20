"""Files of upgrade bundles: format, checks without sources, and bundles read out of a block [UPG10, UPG11, UPG21,
UPG25]."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.protocol import upgrade_bundle
from rollup_node.stages.protocol import upgrade_transactions as upgrades
from rollup_node.stages.protocol.deposits import decode_deposit
from rollup_node.stages.protocol.forks.bundles import BUNDLE_FORKS, CarriedBundle
from rollup_node.stages.protocol.upgrade_bundle import (
    BundleError,
    check_bundle,
    checksum_address,
    deployments,
    entries_of_deposits,
    first_difference,
    parse_bundle,
    write_bundle,
)

ENTRY = {"intent": "Do", "from": "0x" + "01" * 20, "to": "", "data": "0x05", "gasLimit": 7}
FOLDER = Path(upgrades.__file__).parent / "forks"
CARRIED = [(fork, carried) for fork, bundles in BUNDLE_FORKS.items() for carried in bundles.carried]
ALL = pytest.mark.parametrize(("fork", "carried"), CARRIED, ids=[carried.sha256[:8] for _, carried in CARRIED])
LAGOON = BUNDLE_FORKS["lagoon"].carried


def bundle(metadata: Any = None, **changes: Any) -> bytes:
    result = {"metadata": metadata or {"version": "1.0.0"}, "transactions": [ENTRY | changes]}
    return json.dumps(result).encode()


def content(carried: CarriedBundle) -> bytes:
    return (FOLDER / carried.file).read_bytes()


@pytest.mark.parametrize(
    ("metadata", "extra_gas"),
    [
        ({"version": "1.0.0"}, None),
        ({"version": "1.0.0", "extraGas": 0}, None),
        ({"version": "1.1.0"}, 0),
        ({"version": "1.1.0", "extraGas": 150_000}, 150_000),
    ],
)
def test_both_versions_of_the_format_are_read(metadata: Any, extra_gas: int | None) -> None:
    assert parse_bundle(bundle(metadata)).extra_gas == extra_gas


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        (bundle({"version": "1.2.0"}), "its version is '1.2.0'"),
        (bundle({"version": "1.0.0", "extraGas": 1}), "version 1.0.0 has no extraGas"),
        (bundle({"version": "1.1.0", "extraGas": 1 << 64}), "extraGas is 18446744073709551616"),
        (bundle({"version": "1.1.0", "extraGas": -1}), "extraGas is -1"),
        (bundle(intent=""), "transaction 0 has no intent"),
        (bundle(gasLimit=-1), "gas limit of transaction 0"),
        (bundle(gasLimit=1 << 64), "gas limit of transaction 0"),
        (bundle(gasLimit=(1 << 64) - 1), "more than any block's limit"),
        (bundle({"version": "1.1.0", "extraGas": 1 << 62}), "more than any block's limit"),
        (bundle(gasLimit="7"), "not a bundle"),
        (bundle(data="05"), r"transaction 0 \(Do\)"),
        (bundle(**{"from": "0x01"}), r"transaction 0 \(Do\)"),
        (bundle(sourceHash="0x01"), r"transaction 0 \(Do\)"),
        (b'{"metadata":{"version":"1.0.0"},"transactions":[]}', "no transactions"),
        (b"", "not a bundle"),
        (b"[1]", "not a bundle"),
        (b"\xff" * 40, "not a bundle"),
        (b"[" * 100_000, "not a bundle"),
        (b" " * (upgrade_bundle.MAX_BUNDLE_BYTES + 1), "longer than"),
    ],
)
def test_files_that_are_refused(encoded: bytes, text: str) -> None:
    with pytest.raises(BundleError, match=text):
        parse_bundle(encoded)


@ALL
def test_carried_bundles_are_written_as_they_are(fork: str, carried: CarriedBundle) -> None:
    file = parse_bundle(content(carried))
    assert file.sha256 == carried.sha256
    assert write_bundle(file.entries, file.extra_gas) == content(carried)
    check_bundle(file)


def test_the_version_with_extra_gas_is_written_in_the_generators_order() -> None:
    """The hashes are those that were found for these bundles by another program."""
    known = {
        "2124ce31": "25393baa75f94cf42b60a474",
        "a4a9dac5": "785ff9fd879e814e807da906",
        "f1c953f3": "50d9817c3b3e8d",
    }
    for carried in LAGOON:
        written = write_bundle(parse_bundle(content(carried)).entries, 150_000)
        assert hashlib.sha256(written).hexdigest().startswith(known.get(carried.sha256[:8], ""))
        assert parse_bundle(written).extra_gas == 150_000


def test_addresses_have_the_case_of_eip_55() -> None:
    for text in ("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"):
        assert checksum_address(bytes.fromhex(text[2:])) == text


# --- checks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("carried", LAGOON, ids=lambda carried: carried.sha256[:8])
def test_one_wrong_byte_in_any_code_breaks_a_rule(carried: CarriedBundle) -> None:
    file = parse_bundle(content(carried))
    for index, deployment in deployments(file):
        entry = file.entries[index]
        data = bytearray(entry.data)
        data[100 + len(deployment.init_code) // 2] ^= 1
        changed = (*file.entries[:index], entry._replace(data=bytes(data)), *file.entries[index + 1 :])
        with pytest.raises(BundleError, match=r"UPG21\.[23]"):
            check_bundle(file._replace(entries=changed))


@pytest.mark.parametrize(
    ("index", "change", "rule"),
    [
        (0, lambda entry: entry._replace(data=entry.data + bytes(32)), "UPG21.1"),
        (0, lambda entry: entry._replace(data=entry.data[:-1] + b"\x01"), "UPG21.1"),
        (0, lambda entry: entry._replace(data=entry.data[:50]), "UPG21.1"),
        (0, lambda entry: entry._replace(data=entry.data[:4]), "UPG21.1"),
        (0, lambda entry: entry._replace(data=entry.data[:36] + b"\x01" + entry.data[37:]), "UPG21.1"),
        (0, lambda entry: entry._replace(intent="Deploy EAS Implementation"), "UPG21.2"),
        (0, lambda entry: entry._replace(sender=bytes(20)), "UPG21.1"),
        (0, lambda entry: entry._replace(to=None), "UPG21.1"),
        (-1, lambda entry: entry._replace(to=b"\x42" + bytes(19)), "UPG21.3"),
        (-1, lambda entry: entry._replace(data=entry.data[:-1] + b"\x01"), "UPG21.3"),
        (-1, lambda entry: entry._replace(data=entry.data + b"\x01"), "UPG21.3"),
        (-1, lambda entry: entry._replace(data=b"\x01" + entry.data[1:]), "UPG21.3"),
        (-1, lambda entry: entry._replace(data=entry.data[:4] + b"\x01" + entry.data[5:]), "UPG21.3"),
    ],
)
def test_rules(index: int, change: Any, rule: str) -> None:
    file = parse_bundle(content(LAGOON[0]))
    entries = list(file.entries)
    entries[index] = change(entries[index])
    with pytest.raises(BundleError, match=rule.replace(".", r"\.")):
        check_bundle(file._replace(entries=tuple(entries)))


# --- out of a block ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("carried", LAGOON, ids=lambda carried: carried.sha256[:8])
def test_a_bundle_of_a_block_has_the_hash_of_its_file(carried: CarriedBundle) -> None:
    """With the intents of another bundle alone: the names that are new are in the manager's arguments."""
    transactions = upgrades.carried_bundle("lagoon", carried).transactions
    intents = [entry.intent for entry in parse_bundle(content(LAGOON[0])).entries]
    assert write_bundle(entries_of_deposits(transactions, "Interop", intents)) == content(carried)


def test_an_entry_whose_intent_is_not_known_keeps_its_source_hash() -> None:
    """The names of the deployments before it are in the manager's arguments, its own and the call's are not."""
    transactions = upgrades.carried_bundle("lagoon", LAGOON[0]).transactions
    entries = entries_of_deposits(transactions, "Interop", ())
    assert [entry.source_hash is not None for entry in entries] == [False] * (len(entries) - 2) + [True] * 2
    again = parse_bundle(write_bundle(entries))
    assert again.encode("Interop") == transactions and again.entries == entries
    check_bundle(again)


def test_the_first_difference_is_named() -> None:
    ours, theirs = (upgrades.carried_bundle("lagoon", item).transactions for item in LAGOON[:2])
    assert first_difference(ours, ours) == ""
    at = next(index for index, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1])
    sizes = " instead of ".join(str(len(decode_deposit(item[at]).data)) for item in (theirs, ours))
    text = f"transaction {at}: its data has {sizes.replace(' ', ' bytes ', 1)}, and differs from byte "
    assert first_difference(ours, theirs).startswith(text)
    assert first_difference(ours, ours[:-1]) == f"{len(ours) - 1} transactions instead of {len(ours)}"
    entries = entries_of_deposits(ours, "Interop", ())
    more_gas = (entries[0]._replace(gas=1).encode("Interop", 0), *ours[1:])
    assert first_difference(ours, more_gas) == "transaction 0: its gas is 1 instead of 498000"
    other_intent = (entries[0]._replace(intent="x").encode("Interop", 0), *ours[1:])
    assert first_difference(ours, other_intent).startswith("transaction 0: its source hash is 0x")
