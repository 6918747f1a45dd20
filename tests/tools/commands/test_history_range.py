"""`rollup-node history range`: its flags. Whole ranges are derived by the tests of `history run`."""

from pathlib import Path

import pytest

from rollup_node.node.system.process_table import ProcessSpec
from rollup_node.tools.commands import history_range
from rollup_node.tools.history.reading_stage import ReadingConfig
from tests.support.processes.cli import Cli

FLAGS = ["--from-l1", "5", "--to-l1", "6", "--rows", "x", "--warmup", "1", "--floor", "4"]
NODE = ["--network", "op-sepolia", "--l1", "http://127.0.0.1:9", "--l1.beacon", "http://127.0.0.1:9"]


@pytest.mark.parametrize("data", [b"{", b'{"\xff": 1}', b'{"a":' + b"[" * 5000])
def test_a_state_to_resume_from_that_is_damaged(data: bytes, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "resume").write_bytes(data)
    text = cli.refused("history", "range", *FLAGS, "--resume", tmp_path / "resume", *NODE)
    assert "--resume" in text and "is unreadable" in text


def test_a_range_without_an_l2_source_is_read_from_the_batcher_that_is_given(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[ProcessSpec] = []

    def run(command: object, specs: list[ProcessSpec], **options: object) -> int:
        ran.extend(specs)
        return 0

    monkeypatch.setattr(history_range, "run", run)
    flags = ["--from-l1", "6071240", "--to-l1", "6071250", "--rows", "x", "--warmup", "20", "--floor", "4"]
    cli.out("history", "range", *flags, "--batcher", "0x" + 20 * "07", *NODE)
    config = ran[0].config
    assert isinstance(config, ReadingConfig) and len(ran) == 1
    listing = config.listing
    assert (listing.first, config.first, listing.last) == (6071220, 6071240, 6071250)
    assert listing.rollup.genesis.system_config.batcher == 20 * b"\x07"
