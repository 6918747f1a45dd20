"""`rollup-node history status` and `verify` over folders that tests wrote."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from rollup_node.node.options.parsing import parse_options
from rollup_node.node.setup.chain import choose_chain
from rollup_node.stages.engine.calls.safe_head_entries import SafeHeadEntry
from rollup_node.stages.engine.process.safe_heads import HistoryUnavailableError, SafeHeadStore
from rollup_node.stages.io.files.sqlite_file import MEMORY, StoreError
from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.commands.history_status import PastSafeHeads, PastStore
from rollup_node.tools.history.folder import HistoryFolder
from rollup_node.tools.history.manifest import rollup_digest
from tests.support.chains.chain_fixture import make_rollup
from tests.support.chains.small_history import FIRST, LAST, forged, l1_hash, l2_hash, run_file, small_history
from tests.support.engine.safe_head_writer import entries_of
from tests.support.engine.safe_heads import entry
from tests.support.processes.cli import Cli

VALUES = parse_options(["--network=op-sepolia", "--l1.beacon.ignore"], {}).values
CHAIN = choose_chain(VALUES).config


def _entry(number: int) -> SafeHeadEntry:
    l1 = BlockId(number, bytes.fromhex(l1_hash(number)[2:]))
    return SafeHeadEntry(l1, BlockId(2 * number, bytes.fromhex(l2_hash(2 * number)[2:])))


@pytest.fixture
def folder(tmp_path: Path) -> HistoryFolder:
    return small_history(tmp_path / "out", rollup=rollup_digest(CHAIN))


def _words(folder: HistoryFolder, network: str = "op-sepolia") -> list[str]:
    path = str(folder.path.parent / "safe.db")
    return ["history", "safedb", "--out", str(folder.path), "--network", network, "--safedb.path", path]


def test_a_node_answers_with_them(folder: HistoryFolder, cli: Cli) -> None:
    words = _words(folder)
    assert cli.out(*words) == f'31 safe heads of L1 blocks 99 to 129 are in "{words[-1]}" now\n'
    store = SafeHeadStore(words[-1], CHAIN)
    known = [_entry(number) for number in (FIRST - 1, 115, LAST)]
    assert [store.at_l1(number) for number in (FIRST - 2, FIRST - 1, 115, LAST)] == [None, *known]
    assert store.l1_of(2 * 115 - 1) == _entry(115)
    with pytest.raises(HistoryUnavailableError):
        store.l1_of(2 * FIRST - 2)
    store.write(_entry(LAST + 1))
    assert store.l1_of(2 * LAST + 1) == _entry(LAST + 1)
    store.close()


def test_the_past_of_a_record_is_added_once(folder: HistoryFolder, cli: Cli) -> None:
    words = _words(folder)
    store = SafeHeadStore(words[-1], CHAIN)
    for number in (120, 130):
        store.write(_entry(number))
    assert "is in use by another node" in cli.refused(*words)
    store.close()
    assert cli.out(*words).startswith("21 safe heads of L1 blocks 99 to 129 are in")
    assert "it has safe heads from L1 block 99 on" in cli.refused(*words)


def test_what_is_not_imported(folder: HistoryFolder, tmp_path: Path, cli: Cli) -> None:
    out, network, database = (_words(folder)[at : at + 2] for at in (2, 4, 6))
    other = HistoryFolder(tmp_path / "other")
    run = run_file(rollup=rollup_digest(CHAIN))
    other.open(msgspec.structs.replace(run, config=msgspec.structs.replace(run.config, source="none")))
    for text, words in (
        ("holds a history of another chain or rollup config, local", _words(folder, "op-mainnet")[2:]),
        ("name the chain: either --network NAME or --rollup.config FILE", [*out, *database]),
        ("there is no history in", ["--out", tmp_path / "nowhere", *network, *database]),
        ("unknown flag --frobnicate", [*out, "--frobnicate", *network, *database]),
        ("name the node's database: --safedb.path FILE", [*out, *network]),
        ("was made without an L2 source, and has no hashes of L2 blocks", _words(other)[2:]),
    ):
        assert text in cli.refused("history", "safedb", *words)
    forged(folder, folder.manifests()["range-000000000110"], l2_blocks=7)
    text = "is not proved: L1 blocks 110 to 119: 7 L2 blocks lead from 218 to 238: see history verify"
    assert text in cli.refused(*_words(folder)) and not Path(database[1]).exists()


ROLLUP = make_rollup()


@pytest.fixture
def memory() -> Iterator[PastStore]:
    """Yield a database in memory."""
    with contextlib.closing(PastStore(MEMORY, ROLLUP)) as store:
        yield store


PAST = PastSafeHeads(entry(9, 20), 15)
"""Safe heads of L1 blocks 10 to 15."""
ENTRIES = [entry(10, 22), entry(12, 25), entry(14, 26)]


def test_a_history_from_genesis_has_no_gap(memory: PastStore) -> None:
    genesis = ROLLUP.genesis
    past = PastSafeHeads(SafeHeadEntry(genesis.l1, genesis.l2), genesis.l1.number + 9)
    first = entry(genesis.l1.number + 5, 22)
    memory.add_past(past, [first], ROLLUP.genesis.l2)
    assert memory.l1_of(genesis.l2.number) == past.before and memory.l1_of(1) == first


@pytest.mark.parametrize("own", [[entry(16, 30)], [entry(14, 26), entry(17, 31)], [entry(12, 25), entry(14, 26)]])
def test_a_history_fills_the_record_up_to_its_first_entry(own: list[SafeHeadEntry], memory: PastStore) -> None:
    for item in own:
        memory.write(item)
    added = memory.add_past(PAST, ENTRIES, ROLLUP.genesis.l2)
    known = [PAST.before, *(entry for entry in ENTRIES if entry.l1_block.number < own[0].l1_block.number), *own]
    assert added == len(known) - len(own) and entries_of(memory) == known


NOT_THAT = "is not that of the history: name another file"


@pytest.mark.parametrize(
    ("own", "text"),
    [
        (entry(9, 20), "it has safe heads from L1 block 9 on, before which the history does not begin"),
        (entry(17, 30), "its safe heads begin at L1 block 17: derive the history up to the one before"),
        (entry(14, 26, 1), f"its first safe head, at L1 block 14, {NOT_THAT}"),
        (entry(13, 26), f"its first safe head, at L1 block 13, {NOT_THAT}"),
        (entry(15, 27), f"its first safe head, at L1 block 15, {NOT_THAT}"),
    ],
)
def test_a_history_that_does_not_fit_adds_nothing(own: SafeHeadEntry, text: str, memory: PastStore) -> None:
    memory.write(own)
    with pytest.raises(StoreError, match=text):
        memory.add_past(PAST, ENTRIES, ROLLUP.genesis.l2)
    assert entries_of(memory) == [own]


def test_a_history_with_a_gap(tmp_path: Path, cli: Cli) -> None:
    folder = small_history(tmp_path / "out")
    (folder.path / "manifest" / "range-000000000110.json").unlink()
    assert cli.out("history", "status", "--out", folder.path).splitlines() == [
        "local: L1 blocks 100 to 129, 2 of 3 ranges done",
        "L1 blocks 20 of 30, L2 blocks 40",
        "10.0 L1 blocks/s a worker",
        "missing: L1 blocks 110 to 119",
    ]
    ended = cli("history", "verify", "--out", folder.path)
    assert ended.code == 1 and ended.out.startswith("L1 blocks 110 to 119: not derived\n")
    assert ended.err == "rollup-node: NOT proved: 2 of 3 ranges, L1 blocks 100 to 129\n"


def test_a_whole_history_is_proved_until_a_byte_changes(tmp_path: Path, cli: Cli) -> None:
    folder = small_history(tmp_path / "out")
    ended = cli("history", "verify", "--out", folder.path)
    assert (ended.code, ended.err) == (0, "rollup-node: proved: 3 of 3 ranges, L1 blocks 100 to 129\n")
    digest, *trusted = ended.out.splitlines()
    assert digest.startswith("SHA-256 of all tables: ") and len(digest.split()[-1]) == 64
    assert [line.partition(",")[0] for line in trusted] == [
        "trusted: that the L2 source executed its blocks rightly (their hashes are its own; their contents were derived"
        " here)",
        "trusted: that L1's headers are those of the canonical chain (their transactions and receipts were checked"
        " against them unless --l1.trustrpc was given)",
    ]
    path = next((folder.path / "l2_blocks").rglob("*110.jsonl"))
    path.write_text("y" + path.read_text()[1:])
    ended = cli("history", "verify", "--out", folder.path)
    assert ended.code == 1 and "SHA-256 of all" not in ended.out
    assert f"L1 blocks 110 to 119: {path.relative_to(folder.path)}: " in ended.out


@pytest.mark.parametrize(
    "command", ["status", "verify", "report --html x", "safedb --network op-sepolia --safedb.path x"]
)
def test_a_folder_without_a_history(command: str, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "thesis.txt").write_text("x")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "run.json").write_text('{"mine": 1}')
    for where, text in {
        "empty": "there is no history in",
        "nowhere": "there is no history in",
        "": "is not empty and holds no history: name another folder",
        "thesis.txt": "is not a folder: name one",
        "foreign": 'run.json" is unreadable: Object missing required field',
    }.items():
        assert text in cli.refused("history", *command.split(), "--out", tmp_path / where)
    assert not Path("x").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "foreign", "thesis.txt"]


def test_a_page_is_written_once(tmp_path: Path, cli: Cli) -> None:
    out, page = tmp_path / "out", tmp_path / "page.html"
    HistoryFolder(out).open(run_file())
    day = out / "l2_blocks" / "day=2024-08-27"
    day.mkdir(parents=True)
    (day / "range-1.jsonl").write_text(json.dumps({"l1_time": 1_724_785_044, "time": 1_724_785_034, "bytes": 5}) + "\n")
    words = ["history", "report", "--out", out, "--html"]
    cli.out(*words, page)
    text = page.read_text()
    assert "1 L2 blocks" in text and "2024-08-27: 10.0" in text and "L1 blocks 100 to 109: not derived" in text
    assert "--html: cannot write" in cli.refused(*words, page) and page.read_text() == text
    for line in ("{", "[1]", '{"l1_time": "x"}', f'{{"l1_time": -{10**18}}}'):
        (day / "range-1.jsonl").write_text(line)
        assert "is unreadable" in cli.refused(*words, tmp_path / "other.html")
        assert not (tmp_path / "other.html").exists()
