"""The benchmark of `rollup-node batches` on the last of its recorded L1 blocks."""

import zlib
from pathlib import Path

import brotlicffi
import pytest

from rollup_node.stages.blobs import kzg
from rollup_node.tools.bench.batches import decompress, main


@pytest.mark.parametrize("data", [b"", b"abc" * 100])
def test_decompress_both_compressions(data: bytes) -> None:
    compressor = zlib.compressobj()
    unfinished = compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH)
    assert decompress(b"\1" + brotlicffi.compress(data)) == data
    assert decompress(zlib.compress(data)) == data
    assert decompress(unfinished) == data


def test_one_run(shared_data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # The benchmark sets it for its process.
    monkeypatch.setattr(kzg, "setup_pays", kzg.setup_pays)
    main([str(shared_data / "op_sepolia_replay"), "--runs", "1", "--warm-up", "0", "--first", "6582950"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("batches over L1 6582950 to 6582952")
    assert [line.split("  ")[1] for line in lines[3:5]] == ["rollup-node batches", "ratio"]
