"""The options of `l1.checkpoint`, and every wrong one: one line each, with the option and what to do [LCP19]."""

import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from rollup_node.node.options.errors import OptionError
from rollup_node.node.options.parsing import parse_options
from rollup_node.node.setup.checkpoint import CheckpointCheck, checkpoint_config, read_stored
from rollup_node.node.setup.endpoint_checks import RetryPolicy, check_checkpoint
from rollup_node.node.setup.plan import endpoints_to_check
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.node.system.runtime_dir import open_runtime_directory
from rollup_node.stages.io.http.endpoint_errors import EndpointError
from rollup_node.stages.l1.config import CheckpointConfig
from rollup_node.stages.l1.light_client.network import BEACON_NETWORKS
from rollup_node.stages.l1.stored_root import StoredRoot, encode_stored_root
from rollup_node.stages.protocol.hex_encoding import to_hex
from tests.node.setup.planning import REQUIRED, plan_of, prepare
from tests.support.chains.fake_beacon_chain import FakeBeaconChain, beacon_network, with_root
from tests.support.servers.http_listener import listening

ROOT = "0x" + "ab" * 32
SEPOLIA = BEACON_NETWORKS[11_155_111]
SHORT = RetryPolicy(total=0.05, timeout=5.0, max_pause=0.01)
HEAD, CHECKPOINT = 58, 24


def checkpoint_of(*words: str) -> CheckpointConfig:
    checkpoint = prepare(*words).configs.l1.checkpoint
    assert checkpoint is not None
    return checkpoint


def kept(path: Path, checkpoint: bytes = b"\1" * 32, root: bytes = b"\2" * 32, slot: int = 7, **values: Any) -> Path:
    """Write what a node keeps."""
    network = values.get("network", SEPOLIA.genesis_validators_root)
    path.write_bytes(encode_stored_root(StoredRoot(network, checkpoint, root, slot)))
    path.chmod(0o600)
    return path


@pytest.mark.option("l1.checkpoint")
def test_without_a_checkpoint_endpoints_are_believed() -> None:
    assert prepare().configs.l1.checkpoint is None
    planned = plan_of(f"--l1.checkpoint={ROOT}").checkpoint
    assert planned == CheckpointConfig(b"\xab" * 32, ("http://b:5052",), SEPOLIA)


def test_while_the_node_runs_what_is_proven_is_kept_in_any_case(tmp_path: Path) -> None:
    """[LCP13] When the process dies after weeks, its checkpoint is too old, and beacon nodes have pruned it. The check
    before the start reads no such file, and the next node removes it."""
    node = prepare(f"--l1.checkpoint={ROOT}", f"--runtime.dir={tmp_path}")
    path = tmp_path / "state" / "l1.state"
    assert node.configs.l1.checkpoint is not None and node.configs.l1.checkpoint.path == str(path)
    assert endpoints_to_check(node.plan, node.configs, node.secrets).checkpoint == node.plan.checkpoint
    path.parent.mkdir()
    path.write_bytes(b"kept")
    open_runtime_directory(tmp_path, 0).remove()
    assert not path.exists()


@pytest.mark.option("l1.checkpoint.beacon")
def test_its_endpoints_are_its_own_or_those_of_blobs_with_their_header() -> None:
    words = (f"--l1.checkpoint={ROOT}", "--l1.beacon-fallbacks=http://c,http://d", "--l1.beacon-header=X-Key: k")
    shared, own = checkpoint_of(*words), checkpoint_of(*words, "--l1.checkpoint.beacon=http://x,http://y")
    assert (shared.beacons, shared.header) == (("http://b:5052", "http://c", "http://d"), ("X-Key", "k"))
    assert (own.beacons, own.header) == (("http://x", "http://y"), None)


@pytest.mark.option("l1.checkpoint.network")
def test_a_private_beacon_chain_is_that_of_a_file(tmp_path: Path) -> None:
    spec = {"SLOTS_PER_EPOCH": "8", "SYNC_COMMITTEE_SIZE": "32", "EPOCHS_PER_SYNC_COMMITTEE_PERIOD": "8"}
    forks = {"GENESIS_FORK_VERSION": "0x00000001", "ALTAIR_FORK_VERSION": "0x01000001", "ALTAIR_FORK_EPOCH": "0"}
    genesis = {"genesis_time": "1700000000", "genesis_validators_root": "0x" + "11" * 32}
    path = tmp_path / "network.json"
    path.write_text(json.dumps({**spec, **forks, **genesis, "SECONDS_PER_SLOT": "2"}))
    network = checkpoint_of(f"--l1.checkpoint={ROOT}", f"--l1.checkpoint.network={path}").network
    assert (network.slot_ms, network.genesis_time, len(network.forks)) == (2000, 1_700_000_000, 2)
    path.write_text("{}")
    with pytest.raises(OptionError, match=r"--l1.checkpoint.network: .*network.json: .*SECONDS_PER_SLOT is missing"):
        plan_of(f"--l1.checkpoint={ROOT}", f"--l1.checkpoint.network={path}")


@pytest.mark.option("l1.checkpoint.path")
def test_a_kept_root_needs_no_checkpoint(tmp_path: Path) -> None:
    path = kept(tmp_path / "root.json")
    config = checkpoint_of(f"--l1.checkpoint.path={path}")
    assert (config.root, config.path) == (b"\1" * 32, str(path))
    with pytest.raises(
        OptionError, match=r"no root is kept in .* \(--l1.checkpoint.path\) yet: give .* --l1.checkpoint,"
    ):
        plan_of(f"--l1.checkpoint.path={tmp_path / 'absent.json'}")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--l1.checkpoint=0x1234",), "l1.checkpoint.*a block root: 32 bytes in hex"),
        (("--l1.checkpoint=latest",), "l1.checkpoint.*a block root: 32 bytes in hex"),
        ((f"--l1.checkpoint={ROOT}", "--l1.trustrpc"), "--l1.trustrpc believes .* --l1.checkpoint .* leave one"),
        ((f"--l1.checkpoint={ROOT}", "--l1.checkpoint.network=/nowhere"), "of --l1.checkpoint.network: /nowhere"),
        (
            ("--l1.checkpoint.beacon=http://b",),
            "--l1.checkpoint.beacon proves nothing without --l1.checkpoint: give the root",
        ),
        (("--l1.checkpoint.network=/nowhere",), "--l1.checkpoint.network proves nothing without --l1.checkpoint: give"),
    ],
)
def test_wrong_options(words: tuple[str, ...], error: str) -> None:
    with pytest.raises(OptionError, match=error) as failure:
        plan_of(*words)
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ((), "needs a Beacon API: give --l1.checkpoint.beacon or --l1.beacon"),
        (REQUIRED, "L1 chain 900 is not built in: describe it with --l1.checkpoint.network"),
    ],
)
def test_what_a_checkpoint_needs(words: tuple[str, ...], error: str) -> None:
    values = parse_options([*words, f"--l1.checkpoint={ROOT}"], {}).values
    with pytest.raises(OptionError, match=error):
        checkpoint_config(values, 900 if words else 1)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"{}", "has no kept root: .*: delete it, and give the root"),
        (None, "has a root of another network than sepolia"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, content: bytes | None, error: str) -> None:
    path = kept(tmp_path / "root.json", network=b"\x77" * 32)
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(OptionError, match=error):
        read_stored(str(path), SEPOLIA)
    path.chmod(0o666)
    with pytest.raises(OptionError, match=r"cannot read .*root.json \(--l1.checkpoint.path\)"):
        read_stored(str(path), SEPOLIA)


def chain_of(seed: bytes = b"honest", age: float = 0.0) -> FakeBeaconChain:
    """Return a beacon chain whose head is a slot ago, and `age` seconds more."""
    network = beacon_network(int(time.time() - age) - 12 * (HEAD + 2))
    chain = FakeBeaconChain(network, lambda number: sha256(number.to_bytes(8, "big")).digest(), seed)
    chain.head = HEAD
    return chain


@asynccontextmanager
async def checked(chains: Sequence[FakeBeaconChain], root: bytes, **values: Any) -> AsyncIterator[CheckpointConfig]:
    async with listening(*(chain.app() for chain in chains)) as urls:
        yield CheckpointConfig(root, urls, values.pop("network", chains[0].network), timeout=5.0, **values)


async def refusal(chains: Sequence[FakeBeaconChain], root: bytes, **values: Any) -> str:
    """Return the line with which a start ends."""
    async with checked(chains, root, **values) as config:
        with pytest.raises(SetupError) as failure:
            await check_checkpoint(config, SHORT)
    assert "\n" not in str(failure.value) and str(failure.value).endswith("(L1-UNPROVEN)")
    return str(failure.value)


async def test_one_endpoint_that_proves_the_checkpoint_is_enough() -> None:
    chain, silent = chain_of(), chain_of()
    silent.serves = False
    async with checked([silent, chain], chain.root(CHECKPOINT)) as config:
        check = CheckpointCheck(config, time.time)
        (finding,) = await check.find()
        assert "proves the root of slot 24, 0 hours old" in finding.text
        await check.close()
        await check_checkpoint(config, SHORT)


async def test_a_block_from_which_an_endpoint_serves_no_light_client() -> None:
    chain = chain_of()
    chain.unserved = {21}
    line = await refusal([chain], chain.root(21))
    assert "has no proof of the block of slot 21: it is not the last of an epoch, not finalized, or too old" in line


async def test_a_slot_that_is_no_number_does_not_break_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = chain_of()
    answers, hostile = chain._answer, {"data": {"header": {"message": {"slot": "1\n\x1b[31mX"}}}}
    monkeypatch.setattr(chain, "_answer", lambda asked: hostile if "/headers/" in asked.path else answers(asked))
    chain.unserved = {21}
    line = await refusal([chain], chain.root(21))
    assert "has no proof of the block of slot 1" in line and "\x1b" not in line


async def test_a_checkpoint_older_than_the_weak_subjectivity_period() -> None:
    chain = chain_of(age=15 * 86_400)
    line = await refusal([chain], chain.root(CHECKPOINT))
    assert "is 15 days old, more than 14: it proves nothing: give the root of a recent finalized beacon block" in line


async def test_a_kept_root_that_is_too_old_is_refused_with_the_remedy(tmp_path: Path) -> None:
    chain = chain_of(age=15 * 86_400)
    network = chain.network.genesis_validators_root
    path = kept(tmp_path / "root.json", b"\1" * 32, chain.root(40), 40, network=network)
    line = await refusal([chain], b"\1" * 32, path=str(path))
    assert "of slot 40 is 15 days old" in line and "--l1.checkpoint" in line


async def test_a_beacon_node_of_another_network() -> None:
    chain = chain_of()
    line = await refusal([chain], chain.root(CHECKPOINT), network=with_root(beacon_network(), b"\x99" * 32))
    assert (
        "is not a beacon node of test: check --l1.checkpoint.beacon, and --network or --l1.checkpoint.network" in line
    )


async def test_a_beacon_node_without_light_client_routes() -> None:
    chain = chain_of()
    chain.serves, chain.version = False, "Prysm/v7.0.0"
    line = await refusal([chain], chain.root(CHECKPOINT))
    assert "does not serve light clients" in line and "--enable-light-client" in line


async def test_an_endpoint_whose_bootstrap_is_another() -> None:
    chain, other = chain_of(), chain_of(b"foreign")
    other.root = chain.root  # type: ignore[method-assign]
    line = await refusal([other], chain.root(CHECKPOINT))
    assert "is of another block than the checkpoint: use another beacon node for --l1.checkpoint.beacon" in line


async def test_endpoints_that_do_not_respond() -> None:
    config = CheckpointConfig(b"\1" * 32, ("http://127.0.0.1:1",), beacon_network(), timeout=1.0)
    with pytest.raises(SetupError, match=r"the checkpoint cannot be proven, .*: check --l1.checkpoint.beacon, or"):
        await check_checkpoint(config, SHORT)
    check = CheckpointCheck(config, time.time)
    with pytest.raises(EndpointError):
        await check.find()
    await check.close()


@pytest.mark.parametrize("kept_slot", [16, 24, 40])
async def test_a_kept_root_that_another_checkpoint_contradicts(kept_slot: int, tmp_path: Path) -> None:
    """[LCP19] It is on another chain, which the endpoint has too; in the same period, or after an update.

    That stands whatever another endpoint has, which has no proof of the kept root."""
    chain, foreign, other = chain_of(), chain_of(b"foreign"), chain_of()
    network = chain.network.genesis_validators_root
    path = kept(tmp_path / "root.json", b"\1" * 32, foreign.root(kept_slot), kept_slot, network=network)
    chain.also = foreign
    for chains in ([chain], [chain, other]):
        line = await refusal(chains, chain.root(CHECKPOINT), path=str(path))
        assert "are not of one chain: find out which is wrong" in line


@pytest.mark.parametrize("kept_slot", [7, 16, 24, 40, 56])
async def test_a_kept_root_of_the_same_chain_agrees_with_another_checkpoint(kept_slot: int, tmp_path: Path) -> None:
    """Before it or after it, in its period or another; one that the endpoint does not have is not compared."""
    chain = chain_of()
    network, root = chain.network.genesis_validators_root, b"\2" * 32 if kept_slot == 7 else chain.root(kept_slot)
    path = kept(tmp_path / "root.json", b"\1" * 32, root, kept_slot, network=network)
    async with checked([chain], chain.root(CHECKPOINT), path=str(path)) as config:
        await check_checkpoint(config, SHORT)


@pytest.mark.parametrize(
    ("lie", "words"),
    [({"attested_header": {}}, "malformed"), (None, "its signature is not that of the sync committee")],
)
async def test_a_lie_about_the_kept_root_is_named(
    lie: Any, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[LCP19] It is not taken for agreement: the updates between the roots are malformed, or signed by others."""
    chain, foreign = chain_of(), chain_of(b"foreign")
    network = chain.network.genesis_validators_root
    path = kept(tmp_path / "root.json", b"\1" * 32, chain.root(56), 56, network=network)
    answers = chain._answer

    def answer(asked: Any) -> Any:
        update = foreign.update_json(30, committee=True)
        other = answers(asked)
        if not asked.path.endswith("updates"):
            return other
        if lie is not None:
            return [{"data": lie}]
        other[0]["data"]["sync_aggregate"] = update["data"]["sync_aggregate"]
        return other

    monkeypatch.setattr(chain, "_answer", answer)
    line = await refusal([chain], chain.root(CHECKPOINT), path=str(path))
    assert "does not prove what follows slot 24" in line and words in line
    assert "use another beacon node for --l1.checkpoint.beacon" in line


async def test_a_proof_of_the_kept_root_that_is_a_lie_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain, foreign = chain_of(), chain_of(b"foreign")
    path = kept(tmp_path / "root.json", b"\1" * 32, chain.root(40), 40, network=chain.network.genesis_validators_root)
    answers = chain._answer
    kept_path = f"bootstrap/{to_hex(chain.root(40))}"
    monkeypatch.setattr(
        chain,
        "_answer",
        lambda asked: foreign.bootstrap_json(40) if asked.path.endswith(kept_path) else answers(asked),
    )
    line = await refusal([chain], chain.root(CHECKPOINT), path=str(path))
    assert "is of another block than the checkpoint: use another beacon node" in line


async def test_what_a_beacon_node_repeats_of_its_header_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """[LHD33] Neither in a refusal nor in a proof that is none."""
    chain = chain_of()
    for answer in (None, {"data": "s3cr3t-t0ken"}):
        monkeypatch.setattr(chain, "_answer", lambda asked, answer=answer: answer)
        line = await refusal([chain], chain.root(CHECKPOINT), header=("Authorization", "Bearer s3cr3t-t0ken"))
        assert "s3cr3t" not in line
