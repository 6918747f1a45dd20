"""The light client against the sync tests of the consensus specs, in light_client/ (README.md there says whose)."""

import gzip
import json
from pathlib import Path
from typing import Any

import cramjam
import msgspec
import pytest
import yaml

from rollup_node.stages.l1.light_client.beacon_json import parse_bootstrap, parse_update
from rollup_node.stages.l1.light_client.containers import ExecutionPayloadHeader, LightClientUpdate
from rollup_node.stages.l1.light_client.network import MINIMAL, BeaconFork, BeaconNetwork
from rollup_node.stages.l1.light_client.store import LightClientStore, Refusal, check_bootstrap
from rollup_node.stages.protocol.hex_encoding import from_hex

FOLDER = Path(__file__).parent / "light_client"
FORKS = ("genesis", "altair", "bellatrix", "capella", "deneb", "electra", "fulu", "gloas")
COMMITTEE, AGGREGATE = 32 * 48 + 48, 4 + 96
FINALITY_DEPTH = {"deneb": 6, "electra": 7}
COMMITTEE_DEPTH = {"deneb": 5, "electra": 6}


class Reader:
    """Reads fixed parts of SSZ one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def bytes(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, size: int = 8) -> int:
        return int.from_bytes(self.bytes(size), "little")

    def branch(self, depth: int) -> list[str]:
        return ["0x" + self.bytes(32).hex() for _ in range(depth)]

    def committee(self) -> dict[str, Any]:
        keys = ["0x" + self.bytes(48).hex() for _ in range(32)]
        return {"pubkeys": keys, "aggregate_pubkey": "0x" + self.bytes(48).hex()}

    def aggregate(self) -> dict[str, str]:
        return {
            "sync_committee_bits": "0x" + self.bytes(4).hex(),
            "sync_committee_signature": "0x" + self.bytes(96).hex(),
        }


def header_json(data: bytes) -> dict[str, Any]:
    """Return a LightClientHeader of Deneb as the Beacon API has it."""
    reader = Reader(data)
    beacon = {"slot": str(reader.number()), "proposer_index": str(reader.number())}
    beacon |= {name: "0x" + reader.bytes(32).hex() for name in ("parent_root", "state_root", "body_root")}
    offset = reader.number(4)
    return {"beacon": beacon, "execution_branch": reader.branch(4), "execution": execution_json(data[offset:])}


def execution_json(data: bytes) -> dict[str, str]:
    reader, result = Reader(data), {}
    sizes = {"fee_recipient": 20, "logs_bloom": 256, "extra_data": 4}
    for field in msgspec.structs.fields(ExecutionPayloadHeader):
        if field.type is bytes:
            result[field.name] = "0x" + reader.bytes(sizes.get(field.name, 32)).hex()
        else:
            result[field.name] = str(reader.number(32 if field.name == "base_fee_per_gas" else 8))
    result["extra_data"] = "0x" + data[reader.at :].hex()
    return result


def bootstrap_json(data: bytes, fork: str) -> bytes:
    reader = Reader(data)
    header = header_json(data[reader.number(4) :])
    committee, branch = reader.committee(), reader.branch(COMMITTEE_DEPTH[fork])
    return as_answer(header=header, current_sync_committee=committee, current_sync_committee_branch=branch)


def update_json(data: bytes, fork: str) -> bytes:
    """Return a LightClientUpdate, all of whose members are there; those of no committee are zeros."""
    reader = Reader(data)
    attested = reader.number(4)
    committee, committee_branch = reader.committee(), reader.branch(COMMITTEE_DEPTH[fork])
    finalized = reader.number(4)
    finality_branch, aggregate, slot = reader.branch(FINALITY_DEPTH[fork]), reader.aggregate(), reader.number()
    return as_answer(
        attested_header=header_json(data[attested:finalized]),
        next_sync_committee=committee,
        next_sync_committee_branch=committee_branch,
        finalized_header=header_json(data[finalized:]),
        finality_branch=finality_branch,
        sync_aggregate=aggregate,
        signature_slot=str(slot),
    )


def as_answer(**data: Any) -> bytes:
    return json.dumps({"version": "x", "data": data}).encode()


class HeliosCase:
    """One folder of vectors in SSZ."""

    def __init__(self, name: str) -> None:
        self.folder, self.fork = FOLDER / name, name.partition("/")[0]
        self.meta = yaml.safe_load((self.folder / "meta.yaml").read_text())
        self.epochs = dict.fromkeys(FORKS[1 : FORKS.index(self.fork) + 1], 0)
        self.steps: list[dict[str, Any]] = yaml.safe_load((self.folder / "steps.yaml").read_text())

    @property
    def bootstrap(self) -> bytes:
        return bootstrap_json(self._read("bootstrap"), self.fork)

    def update(self, name: str) -> bytes:
        return update_json(self._read(name), self.fork)

    def _read(self, name: str) -> bytes:
        return bytes(cramjam.snappy.decompress_raw((self.folder / f"{name}.ssz_snappy").read_bytes()))


class GeneratedCase:
    """One file of vectors in JSON."""

    def __init__(self, name: str) -> None:
        self._content = json.loads(gzip.decompress((FOLDER / name).read_bytes()))
        self.meta, self.epochs, self.steps = (self._content[key] for key in ("meta", "epochs", "steps"))
        self.bootstrap = as_answer(**self._content["bootstrap"])

    def update(self, name: str) -> bytes:
        return as_answer(**self._content["updates"][name])


Case = HeliosCase | GeneratedCase


def network_of(case: Case) -> BeaconNetwork:
    epochs = {"genesis": 0, **case.epochs}
    forks = [BeaconFork(fork, bytes([FORKS.index(fork), 0, 0, 1]), epoch) for fork, epoch in epochs.items()]
    return BeaconNetwork("minimal", from_hex(case.meta["genesis_validators_root"]), 0, tuple(forks), MINIMAL, 6000)


def store_of(case: Case) -> LightClientStore:
    network = network_of(case)
    bootstrap = parse_bootstrap(case.bootstrap, network)
    assert check_bootstrap(bootstrap, from_hex(case.meta["trusted_block_root"]), network) is None
    return LightClientStore(network, bootstrap)


def force(store: LightClientStore, best: LightClientUpdate) -> None:
    """What the specs let a client without finality do, and ours never does [LCP9]: take a head as finalized."""
    if best.finalized_slot <= store.finalized.beacon.slot:
        best = msgspec.structs.replace(best, finalized_header=best.attested_header)
    store._apply(best)


FOLDERS = sorted(f"{path.parent.parent.name}/{path.parent.name}" for path in FOLDER.glob("*/*/meta.yaml"))
FILES = sorted(path.name for path in FOLDER.glob("*.json.gz"))


@pytest.mark.parametrize("name", FOLDERS + FILES)
def test_every_step_moves_the_headers_as_the_specs_say(name: str) -> None:
    """Each step of the vectors ends with the headers of the vectors [LCP6 to LCP9]."""
    case: Case = GeneratedCase(name) if name in FILES else HeliosCase(name)
    store, best = store_of(case), None
    for step in case.steps:
        (kind, values), *_ = step.items()
        if kind == "force_update":
            assert best is not None
            force(store, best)
        elif kind == "process_update":
            best = parse_update(case.update(values["update"]), network_of(case))
            assert store.process(best, values["current_slot"]) in (None, Refusal.NOT_RELEVANT)
        for header, expected in (
            (store.finalized, values["checks"]["finalized_header"]),
            (store.optimistic, values["checks"]["optimistic_header"]),
        ):
            assert header.beacon.slot == expected["slot"]
            assert "0x" + header.beacon.root.hex() == expected["beacon_root"]


def test_all_vectors_are_there() -> None:
    assert len(FOLDERS) == 6
    assert len(FILES) == 4
