"""Files of histories, which others may have written: run files, manifests, states, rows, Parquet, and L2 blocks."""

import shutil
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from random import Random

import msgspec
import orjson

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.protocol.headers import encode_header
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import payload_header
from rollup_node.tools.commands.history_range import _resume
from rollup_node.tools.commands.history_status import _add
from rollup_node.tools.fuzz.targets.chain_seeds import header_json, payload, rollup
from rollup_node.tools.fuzz.targets.local_files import scratch
from rollup_node.tools.fuzz.targets.target import JSON_TOKENS, FuzzTarget, Seed, one_of
from rollup_node.tools.history.folder import RUN_FILE, HistoryFolder, RunFile
from rollup_node.tools.history.manifest import ManifestError, RunConfig, _checksum, decode_manifest, genesis_resume
from rollup_node.tools.history.report import ReportValues, report_page
from rollup_node.tools.history.tables import Table
from rollup_node.tools.inspect.l2_source import FileSource, SourceError


def sealed(data: bytes) -> bytes:
    """Return an object with the checksum that it needs, which whoever writes the folder can compute."""
    return data[:-1] + _checksum(data[:-1] + b"}") + b"\n"


def manifest(data: bytes) -> object:
    """Return the manifest of a range."""
    return len(decode_manifest(sealed(data)).files)


def run_file(data: bytes) -> object:
    """Return the file that says what a folder holds."""
    scratch().file(RUN_FILE, sealed(data))
    return HistoryFolder(scratch().folder).existing().config.form == "jsonl"


def resume(data: bytes) -> object:
    """Return the state that a range continues from."""
    return _resume(scratch().file("resume", data)).base == 0


def rows(suffix: str, data: bytes) -> object:
    """Return the rows of a table, and the report about them."""
    values = ReportValues()
    folder = HistoryFolder(scratch().folder / "history")
    reads: tuple[tuple[Table, tuple[str, ...], Callable[..., None]], ...] = (
        (Table.L2_BLOCKS, ("l1_time", "time", "bytes"), values.add_blocks),
        (Table.BATCHES, ("l1_time",), values.add_batches),
        (Table.DROPS, ("rule", "effect", "reason"), values.add_drops),
    )
    table, columns, add = reads[data[0] % len(reads)] if data else reads[0]
    path = folder.path / table.value / "day=1970-01-01" / f"range-0{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data[1:])
    try:
        _add(folder, table, columns, add)
    finally:
        path.unlink()
    page = report_page("title", values, ()).encode()
    # No text of a row is an element of the page.
    assert b"<script" not in page and page.count(b"<h1>") == 1
    return min(3, len(values.days)), min(3, len(values.drops))


def l2_blocks(data: bytes) -> object:
    """Return the file of L2 blocks that a replay compares with."""
    return min(3, len(FileSource.read(Path(scratch().file("blocks", data))).numbers))


_STATE = {"number": 1, "hash": "00"}
_POINT = {"l1": _STATE, "safe": _STATE, "origin": _STATE, "system_config": "00", "channels": []}
_MANIFEST = {
    **{"config": "00", "version": "1", "first": 1, "last": 2, "start": _POINT, "end": _POINT, "l2_blocks": 5},
    **{"files": [{"path": "a", "table": "b", "rows": 1, "size": 2, "sha256": "00"}], "seconds": 1.5},
}
_RUN = RunFile(RunConfig("v1", 1, "aa", 100, 10, 50, "jsonl", "engine", False), "local", 119)
_ROWS = (
    *(b'\0{"l1_time":5,"time":4,"bytes":3}\n{"l1_time":86405,"time":4,"bytes":3}\n', b'\1{"l1_time":5}\n'),
    b'\2{"rule":"C1","effect":"<h1>","reason":"<script>"}\n',
)
_PAYLOAD = payload()
_HEADER = payload_header(_PAYLOAD)
_BLOCK_OBJECT = header_json(_HEADER) | {"hash": to_hex(_PAYLOAD.block_hash), "transactions": [], "withdrawals": []}
_BLOCK_RLP = {
    "header_rlp": to_hex(encode_header(_HEADER)),
    "txs": [to_hex(transaction) for transaction in _PAYLOAD.transactions],
}


def _parquet(chance: Random) -> bytes:
    return chance.choice(_parquet_files())


@cache
def _parquet_files() -> list[bytes]:
    """Return a file of each table that is read. Raises ModuleNotFoundError without pyarrow."""
    from rollup_node.tools.history.tables import write_parquet

    parquet_files = []
    for table, row in zip((Table.L2_BLOCKS, Table.BATCHES, Table.DROPS), _ROWS, strict=True):
        source = Path(scratch().file("rows.jsonl", row[1:]))
        target = source.with_suffix(".parquet")
        write_parquet(table, source, target)
        parquet_files.append(row[:1] + target.read_bytes())
    shutil.rmtree(scratch().folder / "history", ignore_errors=True)
    return parquet_files


def _resumes(chance: Random) -> bytes:
    return msgspec.json.encode(genesis_resume(rollup()))


FILE = "who may write the folder of a history"


def _file_target(run: Callable[[bytes], object], seed: Seed, *errors: type[Exception]) -> FuzzTarget:
    return FuzzTarget(FILE, run, seed, errors, JSON_TOKENS)


TARGETS = {
    "history-manifest": _file_target(manifest, one_of([orjson.dumps(_MANIFEST)]), ManifestError),
    "history-run": _file_target(run_file, one_of([msgspec.json.encode(_RUN)]), SetupError),
    "history-resume": _file_target(resume, _resumes, SetupError),
    "history-rows": _file_target(partial(rows, ".jsonl"), one_of(_ROWS), SetupError),
    "history-parquet": FuzzTarget(FILE, partial(rows, ".parquet"), _parquet, (SetupError,)),
    "l2-blocks": FuzzTarget(
        *("operator", l2_blocks, one_of([orjson.dumps([item]) for item in (_BLOCK_OBJECT, _BLOCK_RLP)])),
        *((SourceError,), JSON_TOKENS),
    ),
}
"""The targets by name."""
