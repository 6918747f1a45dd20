"""What a derivation is refused for before it begins, and which error ends one that has begun."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import rollup_node
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.tools.api.blocks import Block
from rollup_node.tools.api.run import (
    DerivationRun,
    L1Source,
    ListingRun,
    forward_logs,
    has_archive,
    last_block,
    served_folder,
)
from rollup_node.tools.history.archive import number_name
from rollup_node.tools.inspect.l2_source import SourceError
from rollup_node.tools.inspect.replay_stage import NoProgress, RangeEnded, ReplayFailed
from tests.support.chains.plain_rollup import PLAIN_ROLLUP
from tests.support.chains.recordings import write_recording
from tests.tools.api.test_blocks import EMPTY, FIRST

CONFIG = L1Config(("http://127.0.0.1:9",), (PLAIN_ROLLUP,))
CHAIN = PLAIN_ROLLUP.l1_chain_id


def _numbers(folder: Path, *numbers: int) -> None:
    for number in numbers:
        path = folder / number_name(CHAIN, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("0x" + "00" * 32)


@pytest.mark.parametrize("name", ["absent", "empty", "file", "nul\0"])
def test_a_folder_without_l1_data_is_an_input_error(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(rollup_node.InputError, match="archive: the folder"):
        has_archive(str(tmp_path / name))


def test_the_last_block_of_an_archive(tmp_path: Path) -> None:
    _numbers(tmp_path, 999_999, 2_000_001, 2_000_010)
    (tmp_path / number_name(CHAIN, 3_000_000)).parent.mkdir(parents=True)
    assert last_block(tmp_path, CHAIN) == 2_000_010
    with pytest.raises(rollup_node.DataError, match=rf"no block of L1 chain 77, it has those of: {CHAIN}"):
        last_block(tmp_path, 77)


@pytest.fixture(scope="module")
def recording_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a small recording, which no test changes."""
    folder = tmp_path_factory.mktemp("recording")
    write_recording(folder)
    return folder


@pytest.mark.parametrize("name", ["l1_blocks.jsonl.gz", "expected.json"])
async def test_a_damaged_recording_is_a_data_error(name: str, recording_files: Path, tmp_path: Path) -> None:
    shutil.copytree(recording_files, tmp_path, dirs_exist_ok=True)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(rollup_node.DataError, match=r"the recorded data in .* are damaged"):
        async with served_folder(str(tmp_path), CONFIG):
            raise AssertionError("it is served")


URL = "http://127.0.0.1:9"
DEAD = {"l1": URL, "beacon": URL, "l2": URL}


SOURCE = L1Source(("--network", "op-sepolia"), URL, URL, None, 1.0, {})


def _run(source: L1Source = SOURCE, l2: str | None = URL) -> DerivationRun:
    return DerivationRun(source, 5, 9, l2, None, None)


def _folder(path: Path) -> L1Source:
    return SOURCE._replace(l1=None, beacon=None, archive=str(path))


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"from_l2": -1, **DEAD}, rollup_node.InputError, "from_l2=-1 is not a block number"),
        ({"from_l2": True, **DEAD}, rollup_node.InputError, "from_l2=True is not a block number"),
        ({"from_l2": "5", **DEAD}, rollup_node.InputError, "from_l2='5' is not a block number"),
        ({"from_l2": 5, "to_l2": 1 << 63, **DEAD}, rollup_node.InputError, "is not a block number"),
        ({"from_l2": 5, "from_l1": -1, **DEAD}, rollup_node.InputError, "from_l1=-1 is not a block number"),
        ({"from_l2": 5, "from_l1": 9, **DEAD}, rollup_node.RangeError, "from_l1=9 is before the chain's genesis"),
        ({"from_l2": 5, **DEAD, "timeout": 0}, rollup_node.InputError, "timeout=0 is not a time in seconds"),
        ({"from_l2": 5, **DEAD, "timeout": "1m"}, rollup_node.InputError, "timeout='1m' is not a time"),
        ({"from_l2": 5, **DEAD, "chain": 10}, rollup_node.InputError, "chain=10 is neither"),
        ({"from_l2": 5, **DEAD, "chain": "op-mainnet"}, rollup_node.RangeError, "before the chain's genesis"),
        ({"from_l2": 5, "to_l2": 5, **DEAD}, rollup_node.RangeError, "to_l2=5 is not after from_l2=5"),
        ({"from_l2": 5}, rollup_node.InputError, "give l1=URL and beacon=URL, or archive=FOLDER"),
        (DEAD, rollup_node.InputError, "give from_l2"),
        ({"from_l2": 5, "l1": URL, "l2": URL}, rollup_node.InputError, "give beacon"),
        ({"from_l2": 5, "l1": URL, "beacon": URL}, rollup_node.InputError, "only from_l2=0 is possible"),
        ({"from_l2": 5, **DEAD, "l2_blocks": "x"}, rollup_node.InputError, "either l2 or l2_blocks"),
        ({"from_l2": 5, "l1": URL, "beacon": URL, "l2_blocks": "/absent"}, rollup_node.InputError, "cannot read"),
        ({"from_l2": 5, **DEAD, "options": {"l1.no-option": 1}}, rollup_node.InputError, "l1.no-option"),
        ({"from_l2": 5, **DEAD, "options": {"l1.trustrpc": "perhaps"}}, rollup_node.InputError, "l1.trustrpc"),
        ({"from_l2": 5, "l1": "ftp://x", "beacon": URL, "l2": URL}, rollup_node.InputError, "ftp://x"),
        ({"from_l2": 5, "archive": "/absent"}, rollup_node.InputError, "the folder /absent is none"),
        ({"from_l2": 5, **DEAD, "options": {"l2.jwt-secret": "/absent"}}, rollup_node.InputError, "no secret in"),
    ],
)
def test_wrong_arguments_are_refused_at_once(arguments: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        rollup_node.derive(**({"chain": "op-sepolia"} | arguments))


def test_the_environment_of_the_node_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_L1", "http://127.0.0.1:1")
    with pytest.raises(rollup_node.InputError, match="give l1=URL"):
        rollup_node.derive("op-sepolia", from_l2=5, l2=URL)


def test_a_recording_is_read_alone_with_its_file_of_l2_blocks(recording_files: Path, tmp_path: Path) -> None:
    with pytest.raises(rollup_node.InputError, match="only from_l2=0 is possible"):
        _run(_folder(recording_files), None)
    shutil.copytree(recording_files, tmp_path, dirs_exist_ok=True)
    (tmp_path / "l2_blocks.json").write_text("[]")
    run = _run(_folder(tmp_path), None)
    assert run._command.flags.l2_blocks == str(tmp_path / "l2_blocks.json")
    assert type(run.error_of(NoProgress("no blobs"), None)) is rollup_node.DataError
    with_l2 = _run(_folder(recording_files))
    assert type(with_l2.error_of(TemporaryError("L2 block 5: cannot connect"), None)) is rollup_node.EndpointError
    with pytest.raises(rollup_node.InputError, match="either l1 or the folder of recorded data"):
        _run(SOURCE._replace(archive=str(recording_files)))


@pytest.mark.parametrize(
    ("error", "last", "kind", "code"),
    [
        (ReplayFailed("block 2 differs"), EMPTY, rollup_node.BlockDiffers, "DIFFERS"),
        (ReplayFailed("the source lacks it"), FIRST, rollup_node.DataError, "DATA"),
        (RangeEnded("L1 is exhausted"), FIRST, rollup_node.RangeError, "RANGE"),
        (NoProgress("nothing is derived"), None, rollup_node.EndpointError, "ENDPOINT"),
        (TemporaryError("L2 block 5: cannot connect"), None, rollup_node.EndpointError, "ENDPOINT"),
        (SourceError("no JSON"), None, rollup_node.DataError, "DATA"),
    ],
)
def test_what_ends_a_derivation(error: Exception, last: Block | None, kind: type[Exception], code: str) -> None:
    result = _run().error_of(error, last)
    assert isinstance(result, rollup_node.Error) and (type(result), result.code) == (kind, code)
    assert str(result) == str(error)


@pytest.mark.parametrize(
    ("first", "last", "text"),
    [(7, 9, "from_l1=7 is before the chain's genesis, L1 block 4071408"), (5_000_000, 9, "to_l1=9 is before from_l1")],
)
def test_ranges_of_l1_that_are_none(first: int, last: int, text: str) -> None:
    with pytest.raises(rollup_node.RangeError, match=text):
        rollup_node.batches("op-sepolia", from_l1=first, to_l1=last, l1=URL, beacon=URL)
    result = ListingRun(SOURCE, 5_000_000, 5_000_000).error_of(RangeEnded("the chain left"), None)
    assert type(result) is rollup_node.RangeError


def test_a_reset_has_its_rule_and_a_bug_stays_one() -> None:
    run = _run()
    run.outcome.reset_rule = "T8"
    result = run.error_of(ReplayFailed("derivation cannot continue"), None)
    assert isinstance(result, rollup_node.DataError) and result.rule == "T8"
    bug = ZeroDivisionError()
    assert run.error_of(bug, None) is bug


def test_stages_log_to_pythons_loggers(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    from rollup_node.stages.io.log.logger import Logger

    forward_logs()
    forward_logs()
    with caplog.at_level("INFO", "rollup_node"):
        Logger("derivation").warn("batch dropped", code="INPUT-DROPPED", number=5)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("rollup_node.derivation", "WARNING")
    assert record.getMessage() == "batch dropped code=INPUT-DROPPED number=5"
    assert capsys.readouterr().err == ""
