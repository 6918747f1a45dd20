"""The flags of the local network, and invalid values."""

from pathlib import Path

import pytest

from rollup_node.stages.l1.light_client.network import Preset
from rollup_node.tools.devnet.fork_offsets import SettingsError, fork_offsets
from rollup_node.tools.devnet.settings import parse, unmet, with_scenarios
from rollup_node.tools.faults.scenario import Action, Event, Fault, Role, Scenario


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


def test_the_network_has_what_its_scenarios_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = parse([])
    services = with_scenarios(plain, [Scenario("a", (Fault(Role.SIGNER, Action.RESET),))])
    assert (services.altda, services.signer, services.conductor) == ("honest", True, True)
    assert with_scenarios(parse(["--altda", "slow"]), services.scenarios).altda == "slow"
    assert with_scenarios(plain, ()) == plain
    deep = with_scenarios(plain, [Scenario("a", events=(Event(reorg=64),))])
    assert deep.l1_block_time == 1 and (deep.finalized_distance or 0) > 64 + 64 and deep.forks == plain.forks
    across = with_scenarios(plain, [Scenario("a", events=(Event(reorg=64, across=True),))])
    assert across.forks == fork_offsets(["isthmus=0", "jovian=62"])
    assert with_scenarios(plain, [Scenario("a", events=(Event(fill=True),))]).small_disk
    gloas = with_scenarios(plain, [Scenario("a", events=(Event(kill="blobs"),), gloas=True)])
    assert gloas.l1_forks["amsterdam"] > 0 and plain.l1_forks == {}
    proven = with_scenarios(plain, [Scenario("a", faults=(Fault(Role.L1, Action.FORGED),), checkpoint=True)])
    assert proven.checkpoint is not None and proven.forged_l1 and plain.checkpoint is None and not plain.forged_l1
    library = tmp_path / "libfaketime.so.1"
    jump = Scenario("a", events=(Event(clock=5),))
    monkeypatch.setenv("LIBFAKETIME", str(library))
    assert unmet(jump) == "libfaketime.so.1 is not installed; LIBFAKETIME can name its file"
    assert unmet(services.scenarios[0]) is None
    library.touch()
    assert unmet(jump) is None and with_scenarios(plain, [jump]).clock_library == library
