"""The light client against the sync tests of the consensus specs, in light_client/ (README.md there says whose)."""

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollup_node.stages.l1.light_client.beacon_json import parse_bootstrap, parse_update
from rollup_node.stages.l1.light_client.containers import LightClientUpdate
from rollup_node.stages.l1.light_client.network import MINIMAL, BeaconFork, BeaconNetwork
from rollup_node.stages.l1.light_client.store import LightClientStore, Refusal, check_bootstrap
from rollup_node.stages.protocol.hex_encoding import from_hex

FOLDER = Path(__file__).parent / "light_client"
FORKS = ("genesis", "altair", "bellatrix", "capella", "deneb", "electra", "fulu", "gloas")


def as_answer(**data: Any) -> bytes:
    return json.dumps({"version": "x", "data": data}).encode()


class Case:
    """One file of vectors in JSON."""

    def __init__(self, name: str) -> None:
        self._content = json.loads(gzip.decompress((FOLDER / name).read_bytes()))
        self.meta, self.epochs, self.steps = (self._content[key] for key in ("meta", "epochs", "steps"))
        self.bootstrap = as_answer(**self._content["bootstrap"])

    def update(self, name: str) -> bytes:
        return as_answer(**self._content["updates"][name])


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


FILES = sorted(path.name for path in FOLDER.glob("*.json.gz"))


@pytest.mark.parametrize("name", FILES)
def test_every_step_moves_the_headers_as_the_specs_say(name: str) -> None:
    """Each step of the vectors ends with the headers of the vectors [LCP6 to LCP9]."""
    case = Case(name)
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
    assert len(FILES) == 10
