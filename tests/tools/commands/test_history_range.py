"""`rollup-node history range`: its flags. Whole ranges are derived by the tests of `history run`."""

import os
from pathlib import Path

import pytest

from rollup_node.node import cli
from rollup_node.node.system.process_table import ProcessSpec
from rollup_node.tools.commands import history_range
from rollup_node.tools.history.reading_stage import ReadingConfig

FLAGS = ["--from-l1", "5", "--to-l1", "6", "--rows", "x", "--warmup", "1", "--floor", "4"]
NODE = ["--network", "op-sepolia", "--l1", "http://127.0.0.1:9", "--l1.beacon", "http://127.0.0.1:9"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([*FLAGS, "--l2", "http://127.0.0.1:9", "--l2-blocks", "/dev/null"], "give the L2 source: either --l2 URL or"),
        ([*FLAGS, "--l2-blocks", "/dev/null"], "--l2-blocks needs the block to begin with: --safe-head N"),
        (["--from-l1", "x"], "'x' is not a block number"),
        (FLAGS[:-2], "--floor"),
        ([*FLAGS, "--parent", str(os.getpid())], "which started this one, has ended"),
    ],
)
def test_wrong_flags_are_rejected_in_one_line(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["history", "range", *arguments, *NODE]) == 1
    err = capsys.readouterr().err
    assert text in err and len(err.splitlines()) == 1


@pytest.mark.parametrize("data", [b"{", b'{"\xff": 1}', b'{"a":' + b"[" * 5000])
def test_a_state_to_resume_from_that_is_damaged(
    data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "resume"
    path.write_bytes(data)
    assert cli.main(["history", "range", *FLAGS, "--resume", str(path), *NODE]) == 1
    err = capsys.readouterr().err
    assert "--resume" in err and "is unreadable" in err and len(err.splitlines()) == 1


def test_a_range_without_an_l2_source_is_read_from_the_batcher_that_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[ProcessSpec] = []

    def run(command: object, specs: list[ProcessSpec], **options: object) -> int:
        ran.extend(specs)
        return 0

    monkeypatch.setattr(history_range, "run", run)
    flags = ["--from-l1", "6071240", "--to-l1", "6071250", "--rows", "x", "--warmup", "20", "--floor", "4"]
    assert cli.main(["history", "range", *flags, "--batcher", "0x" + 20 * "07", *NODE]) == 0
    (spec,) = ran
    config = spec.config
    assert isinstance(config, ReadingConfig)
    listing = config.listing
    assert (listing.first, config.first, listing.last) == (6071220, 6071240, 6071250)
    assert listing.rollup.genesis.system_config.batcher == 20 * b"\x07"
