"""The benchmark of `rollup-node batches` on the last of its recorded L1 blocks."""

import subprocess
import sys
import zlib
from pathlib import Path

import brotlicffi
import pytest

from rollup_node.tools.bench.batches import decompress


@pytest.mark.parametrize("data", [b"", b"abc" * 100])
def test_decompress_both_compressions(data: bytes) -> None:
    compressor = zlib.compressobj()
    unfinished = compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH)
    assert decompress(b"\1" + brotlicffi.compress(data)) == data
    assert decompress(zlib.compress(data)) == data
    assert decompress(unfinished) == data


def test_one_run(shared_data: Path) -> None:
    folder = str(shared_data / "op_sepolia_replay")
    flags = ("--runs", "1", "--warm-up", "0", "--first", "6582950")
    command = [sys.executable, "-m", "rollup_node.tools.bench.batches", folder, *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=58, check=False)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("batches over L1 6582950 to 6582952"), done.stderr
    assert [line.split("  ")[1] for line in lines[3:5]] == ["rollup-node batches", "ratio"]
