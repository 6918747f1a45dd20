"""`rollup-node history range`: its flags. Whole ranges are derived by the tests of `history run`."""

import pytest

from rollup_node.node import cli

FLAGS = ["--from-l1", "5", "--to-l1", "6", "--rows", "x", "--warmup", "1", "--floor", "4"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (FLAGS, "give the L2 source: either --l2 URL or --l2-blocks FILE"),
        ([*FLAGS, "--l2-blocks", "/dev/null"], "--l2-blocks needs the block to begin with: --safe-head N"),
        (["--from-l1", "x"], "'x' is not a block number"),
        (FLAGS[:-2], "--floor"),
    ],
)
def test_wrong_flags_are_rejected_in_one_line(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    node = ["--network", "op-sepolia", "--l1", "http://127.0.0.1:9", "--l1.beacon", "http://127.0.0.1:9"]
    assert cli.main(["history", "range", *arguments, *node]) == 1
    err = capsys.readouterr().err
    assert text in err and len(err.splitlines()) == 1
