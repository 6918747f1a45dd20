"""The flags of the local network, its forks, files and ports, and invalid values."""

import json
import socket
from dataclasses import astuple
from pathlib import Path

import pytest

from rollup_node.stages.l1.light_client.network import Preset
from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.protocol.l1_chains import parse_l1_chain
from rollup_node.tools.devnet.files import (
    L1_CHAIN_ID,
    NetworkFiles,
    l1_genesis,
    write_secrets,
)
from rollup_node.tools.devnet.fork_offsets import LATE_L1_FORKS, SettingsError
from rollup_node.tools.devnet.l1.backend import L1Backend
from rollup_node.tools.devnet.ports import (
    LOOPBACK,
    Ports,
    address,
    bootnode,
    peer_options,
    reserved,
)
from rollup_node.tools.devnet.settings import parse

NODES = ("sequencer", "verifier")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("--blocks 0", "--blocks: must be at least 1, not 0"),
        ("--duration nan", "--duration: must be at least 1, not nan"),
        ("--l2-block-time 3", "--l2-block-time: must not be longer than --l1-block-time"),
        ("--base-port 80", "--base-port: must be 0 or 1024 to 65500, not 80"),
        ("--anvil anvil", "--anvil: its blocks with blob transactions have a wrong transactions root"),
        ("--l1 http://127.0.0.1:1", "--l1: blobs need --beacon as well, or --da calldata"),
        ("--sequencer-engine here", "--sequencer-engine here: must be two URLs, PUBLIC,AUTHENTICATED"),
        ("--l1 here --da calldata", "--l1 here: must be an address such as http://127.0.0.1:8545"),
        ("--el-sync --verifier-engine http://a,http://b", "--el-sync: it needs the embedded engine for the verifier"),
        ("--beacon http://127.0.0.1:1", "--beacon: give its --l1 as well"),
        ("--anvil anvil --da calldata --l1 http://127.0.0.1:1", "--anvil: --l1 gives another L1"),
        ("--data-dir=", "argument --data-dir: must be a directory, not ''"),
        ("--l1-forks gloas=5 --l1 http://127.0.0.1:1 --da calldata", "--l1-forks: it needs the embedded L1"),
        ("--log-level loud", "--log-level loud: must be one of silent, error"),
        ("--bogus", "unrecognized arguments: --bogus"),
        ("--sequencers 6 --conductor", "--sequencers: must be 1 to 5, not 6"),
        ("--sequencers 2", "--sequencers: without a conductor each builds a chain of its own; add --conductor"),
        ("--chaos 1 --sequencers 2 --conductor", "--chaos: must be at least 2, not 1"),
        ("--chaos-faults 3", "--chaos-faults: there are no faults to count; add --chaos SECONDS"),
        ("--chaos 5 --conductor", "--chaos: there must be another sequencer to fail over to"),
        ("--chaos 5 --sequencers 2 --conductor --no-batcher", "--chaos: it ends with a comparison of safe blocks"),
        (
            "--chaos 5 --sequencers 2 --conductor --sequencer-engine http://a,http://b",
            "--chaos: it restarts the engines, which must be the embedded ones",
        ),
        ("--faults /missing/file", "--faults /missing/file: No such file or directory"),
        ("--faults /dev/null", "--faults /dev/null: no file of scenarios: Object missing required field `scenario`"),
        ("--faults /dev/null --sequencers 2 --conductor", "--faults: leave out --no-batcher, --verifier-engine"),
        ("--engine-like op-reth", "--engine-like op-reth: unknown behaviour 'op-reth'; one of op-reth-skip"),
        ("--engine-like verifier-2=op-reth-skip", "--engine-like verifier-2=op-reth-skip: there is no node "),
        ("--faults /dev/null --l1 http://127.0.0.1:1 --da calldata", "--faults: it needs the embedded L1"),
        ("--dependency-set 902,x", "--dependency-set 902,x: must be chain ids, separated by commas"),
        ("--lagoon-bundle auto", "--lagoon-bundle: the chain does not cross Lagoon; add --fork lagoon=OFFSET"),
        ("--committee-period 32", "--committee-period: the nodes do not look at sync committees; add --checkpoint"),
        ("--checkpoint --committee-period 18", "--committee-period 18: must be at least 8 slots, and whole epochs"),
        ("--checkpoint --l1-forks gloas=12", "--l1-forks amsterdam=12: with --checkpoint a multiple of 8 s, an epoch"),
        ("--checkpoint --anvil anvil --da calldata", "--checkpoint: it needs the embedded L1"),
        ("--forged-l1", "--forged-l1: without --checkpoint the nodes may follow it; add --checkpoint"),
        ("--sequencing-window 0", "--sequencing-window: must be at least 1, not 0"),
        ("--fork lagoon=9 --lagoon-bundle judge=auto", "--lagoon-bundle judge=auto: there is no node 'judge'"),
        ("--fork bedrock=1", "--fork bedrock=1: unknown fork 'bedrock'; one of regolith, canyon"),
        ("--fork canyon", "--fork canyon: must be NAME=OFFSET"),
        ("--fork canyon=9999999999", "--fork canyon=9999999999: must be NAME=OFFSET"),
        ("--fork canyon=1 --fork canyon=2", "--fork: the same fork is given twice"),
        (
            "--fork canyon=9 --fork delta=8",
            "--fork: fork delta set to 8, but prior fork canyon has higher offset 9; give ascending offsets, and from ",
        ),
        ("--fork jovian=5 --fork karst=5", "--fork: fork karst set to 5, but prior fork jovian activates at the same"),
        ("--l1-forks=", "--l1-forks : unknown fork ''; one of osaka, bpo1, bpo2, amsterdam, fulu, gloas"),
        ("--l1-forks gloas", "--l1-forks gloas: must be NAME=OFFSET"),
        ("--l1-forks osaka=1,fulu=2", "--l1-forks: the same fork is given twice"),
        (
            "--l1-forks osaka=9,gloas=8",
            "--l1-forks osaka=9,gloas=8: give ascending offsets, in the order osaka, bpo1, bpo2, amsterdam",
        ),
    ],
)
def test_invalid_flags(words: str, error: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        parse(words.split())
    assert str(refusal.value).startswith(error) and "\n" not in str(refusal.value)


def test_a_checkpoint_and_its_sync_committees() -> None:
    assert parse([]).checkpoint is None
    assert parse(["--checkpoint"]).checkpoint == Preset(32, 4, 16)
    words = "--checkpoint 512 --committee-period 24 --l1-block-time 1 --l1-forks gloas=8 --forged-l1"
    settings = parse(words.split())
    assert settings.checkpoint == Preset(512, 4, 6) and settings.forged_l1


def test_the_dependency_set_and_the_bundles_of_nodes() -> None:
    value = "--fork karst=4 --fork lagoon=9 --dependency-set 902,903 --lagoon-bundle one.json"
    result = parse([*value.split(), "--lagoon-bundle", "verifier=auto"])
    assert result.dependencies == (902, 903)
    assert result.lagoon_bundles == {"": str(Path("one.json").absolute()), "verifier": "auto"}


def test_sequencers_come_first() -> None:
    settings = parse(["--sequencers", "2", "--nodes", "2", "--conductor", "--no-batcher"])
    assert settings.nodes == ("sequencer", "sequencer-2", "verifier", "verifier-2")
    assert settings.sequencer_names == settings.nodes[:2] and not settings.batcher
    assert parse([]).nodes == ("sequencer", "verifier") and parse([]).batcher


def test_the_da_server_is_honest_unless_a_mode_is_given() -> None:
    assert [parse(words).altda for words in ([], ["--altda"], ["--altda=lying"])] == [None, "honest", "lying"]


FORKS = FORK_NAMES[1:]


def until(newest: str, **later: int) -> dict[str, int]:
    return dict.fromkeys(FORKS[: FORKS.index(newest) + 1], 0) | later


@pytest.mark.parametrize(
    ("forks", "expected"),
    [
        ([], until("jovian")),
        (["karst=0"], until("karst")),
        (["regolith=4"], {"regolith": 4}),
        (["canyon=20"], until("regolith", canyon=20)),
        (["ecotone=3", "granite=5"], until("delta", ecotone=3, fjord=5, granite=5)),
        (["jovian=0", "karst=5", "lagoon=9"], until("jovian", karst=5, lagoon=9)),
        (["canyon=0", "ecotone=7"], until("canyon", delta=7, ecotone=7)),
        ([f"{fork}={9 * at}" for at, fork in enumerate(FORKS)], {fork: 9 * at for at, fork in enumerate(FORKS)}),
    ],
)
def test_fork_offsets(forks: list[str], expected: dict[str, int]) -> None:
    assert parse([word for fork in forks for word in ("--fork", fork)]).forks == expected


@pytest.mark.parametrize(
    ("forks", "expected"),
    [
        ("osaka=0", {"osaka": 0}),
        ("gloas=0", dict.fromkeys(LATE_L1_FORKS, 0)),
        ("amsterdam=20", {"osaka": 0, "bpo1": 0, "bpo2": 0, "amsterdam": 20}),
        ("fulu=5,gloas=20", {"osaka": 5, "bpo1": 20, "bpo2": 20, "amsterdam": 20}),
        ("bpo1=3,bpo2=3,osaka=3", {"osaka": 3, "bpo1": 3, "bpo2": 3}),
    ],
)
def test_l1_fork_offsets(forks: str, expected: dict[str, int]) -> None:
    assert parse([f"--l1-forks={forks}"]).l1_forks == expected


def test_secrets_are_private_and_kept(tmp_path: Path) -> None:
    files = NetworkFiles(tmp_path)
    write_secrets(files, NODES)
    paths = [files.jwt, files.batcher_key, files.peer_key("sequencer"), files.peer_key("verifier")]
    contents = [path.read_text() for path in paths]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in paths)
    assert all(len(text.strip()) == 64 for text in contents) and len(set(contents)) == 4
    write_secrets(files, (*NODES, "verifier-2"))
    assert [path.read_text() for path in paths] == contents
    assert files.peer_key("verifier-2").exists()


def test_late_forks_of_l1() -> None:
    """Those at genesis have the time 0; Osaka has the blobs of Prague, and Amsterdam none of its own [LIN28, LIN32]."""
    genesis = l1_genesis(1000, {"osaka": 0, "bpo1": 0, "bpo2": 6, "amsterdam": 20})
    config = genesis["config"]
    assert [config[f"{fork}Time"] for fork in ("osaka", "bpo1", "bpo2", "amsterdam")] == [0, 0, 1006, 1020]
    chain = parse_l1_chain(json.dumps(config).encode(), L1_CHAIN_ID)
    names = ("cancun", "prague", "osaka", "bpo1")
    assert [(fork.name, fork.time) for fork in chain.blob_forks] == [*((name, 0) for name in names), ("bpo2", 1006)]
    backend = L1Backend(genesis, 2)
    for time in (1000, 1005, 1006, 1020):
        blobs = backend.evm_rules(time).blobs
        assert blobs is not None and blobs.update_fraction == chain.update_fraction(time)


def numbers(ports: Ports) -> list[int]:
    nodes = (port for name in NODES for port in astuple(ports.nodes[name]))
    services = (ports.signer, ports.conductor, ports.da_server, ports.forged_l1, ports.forged_beacon)
    return [ports.l1, ports.beacon, *nodes, *services, *(ports.status[name] for name in NODES)]


def test_reserved_ports_are_exclusive_and_can_be_listened_on() -> None:
    with reserved(0, NODES) as first, reserved(0, NODES) as second:
        assert len({*numbers(first), *numbers(second)}) == 38
        for port in numbers(first):
            with socket.create_server((LOOPBACK, port)), pytest.raises(OSError, match="in use"):
                socket.create_server((LOOPBACK, port))


def test_peers_and_signing(tmp_path: Path) -> None:
    """A sequencer signs with a key or a signer and dials those before it; a verifier dials all."""
    files = NetworkFiles(tmp_path)
    write_secrets(files, (*NODES, "sequencer-2"))
    ports = {"sequencer": 9000, "sequencer-2": 9002}
    first, second = (address(files, name, port) for name, port in ports.items())
    options = {name: peer_options(files, name, 9000, ports) for name in (*ports, "verifier")}
    assert [values.get("p2p.static") for values in options.values()] == [None, first, f"{first},{second}"]
    assert ["p2p.sequencer.key" in values for values in options.values()] == [True, True, False]
    assert "p2p.bootnodes" not in options["sequencer"]
    assert options["sequencer-2"]["p2p.bootnodes"] == bootnode(files, "sequencer", 9000)
    assert options["verifier"]["p2p.bootnodes"].count("enode://") == 2
    for values in options.values():
        assert (values["p2p.listen.ip"], values["p2p.netrestrict"]) == ("127.0.0.1", "127.0.0.0/8")
    signer = "http://127.0.0.1:9003"
    options = {name: peer_options(files, name, 9000, ports, signer) for name in (*ports, "verifier")}
    assert [values.get("signer.endpoint") for values in options.values()] == [signer, signer, None]
    assert not any("p2p.sequencer.key" in values for values in options.values())
