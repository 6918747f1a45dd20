"""One range: a subprocess of the node's own stages, whose rows become the files of the range."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from rollup_node.node.history.derivation_stage import OVERLAP, RESULT, RangeResult
from rollup_node.node.history.folder import HistoryFolder, file_entry
from rollup_node.node.history.manifest import ManifestRow, Resume
from rollup_node.node.history.ranges import L1Range
from rollup_node.node.history.tables import Table
from rollup_node.node.system.exit_codes import SetupError, one_line
from rollup_node.node.system.version import version
from rollup_node.stages.messages.codes import Code

ATTEMPTS = 3
"""How often a range is begun whose processes are killed."""
ERRORS = "errors"
"""The file with what the processes of a range write to standard error."""
RESUME = "resume.json"
ERROR_BYTES = 8_192
STOP_SECONDS = 10.0
ERROR = "rollup-node: "
LOG_BYTES = 1 << 20
"""The part of the log in which codes are searched."""
_CODE = re.compile(rb'\bcode"?[=:] ?"?([A-Z][A-Z0-9-]+)')
NO_ERROR = (f"{ERROR} ", f"{ERROR}warning: ", f"{ERROR}waiting")


class RangeFailed(Exception):
    """The range was not derived. The text is one line that says why."""


class RangeTask(msgspec.Struct, frozen=True):
    """What a worker needs to run a range. `arguments` are the options of `rollup-node history range` that are the same
    for all ranges; `floor` is the first L1 block that may be read with a file of L2 blocks; `config` is the digest of
    the run, `form` the ending of the files, `batcher` the one to begin with where there is no L2 source, None for that
    of the chain's genesis, `resume` the state to derive from without one, after the range `after`. Times are in
    seconds."""

    out: str
    first: int
    last: int
    config: str
    version: str
    form: str
    arguments: tuple[str, ...]
    warmup: int
    floor: int
    safe_head: int | None = None
    repaired: str | None = None
    batcher: str | None = None
    resume: Resume | None = None
    after: L1Range | None = None


def run_range(task: RangeTask) -> ManifestRow:
    """Runs a range and publishes its files. Raises RangeFailed where it cannot be derived or written, with nothing
    changed that was complete before."""
    if task.version != version():
        raise RangeFailed(f"the worker has version {version()}, the run {task.version}: install the same version")
    wanted, folder, began = L1Range(task.first, task.last), HistoryFolder(Path(task.out)), time.monotonic()
    partial: Path | None = None
    try:
        partial = folder.partial(wanted)
        rows = partial / "rows"
        result = _derive(task, rows)
        files, entries = {}, []
        for name, count in sorted(result.rows.items()):
            source, path = _file(task, wanted, rows / name, name)
            files[path] = source
            entries.append(file_entry(source, path, name.partition("/")[0], count))
        row = ManifestRow(
            config=task.config,
            version=task.version,
            first=task.first,
            last=task.last,
            start=result.start,
            end=result.end,
            l2_blocks=result.l2_blocks,
            files=tuple(entries),
            seconds=round(time.monotonic() - began, 3),
            repaired=task.repaired,
            warnings=_codes(partial / ERRORS),
            batcher=result.batcher,
            resume=result.resume,
        )
        if result.resume is not None:
            folder.keep_overlap(wanted, rows / OVERLAP)
        folder.publish(row, files)
        return row
    except (OSError, ValueError) as error:
        raise RangeFailed(f"its files cannot be written: {one_line(str(error))}") from None
    except SetupError as error:
        raise RangeFailed(str(error)) from None
    finally:
        if partial is not None:
            shutil.rmtree(partial, ignore_errors=True)


def _file(task: RangeTask, wanted: L1Range, rows: Path, name: str) -> tuple[Path, str]:
    """A file of the range in its form, and its name below the output folder."""
    path = f"{name.removesuffix('.jsonl')}/{wanted.name}.{task.form}"
    if task.form == "jsonl":
        return rows, path
    from rollup_node.node.history.parquet_files import write_parquet

    target = rows.with_suffix(f".{task.form}")
    write_parquet(Table(name.partition("/")[0]), rows, target)
    return target, path


def _derive(task: RangeTask, rows: Path) -> RangeResult:
    """Runs the processes of the range until they have written all rows below `rows`."""
    for attempt in range(1, ATTEMPTS + 1):
        shutil.rmtree(rows, ignore_errors=True)
        rows.mkdir()
        if task.resume is not None:
            (rows.parent / RESUME).write_bytes(msgspec.json.encode(task.resume))
        code, text = _run(_command(task, rows), rows.parent / ERRORS)
        if code == 0 and (rows / RESULT).exists():
            return msgspec.json.decode((rows / RESULT).read_bytes(), type=RangeResult)
        if code == 1 or attempt == ATTEMPTS:
            raise RangeFailed(text or f"its processes ended with exit code {code}")
    raise AssertionError("unreachable")


def _command(task: RangeTask, rows: Path) -> list[str]:
    flags = ["--from-l1", str(task.first), "--to-l1", str(task.last), "--rows", str(rows)]
    flags += ["--warmup", str(task.warmup), "--floor", str(task.floor)]
    if task.safe_head is not None:
        flags += ["--safe-head", str(task.safe_head)]
    if task.resume is not None:
        flags += ["--resume", str(rows.parent / RESUME)]
    overlap = None if task.after is None else HistoryFolder(Path(task.out)).overlap(task.after)
    if overlap is not None and overlap.exists():
        flags += ["--overlap", str(overlap)]
    if task.batcher is not None:
        flags += ["--batcher", task.batcher]
    return [sys.executable, "-m", "rollup_node.node", "history", "range", *flags, *task.arguments]


def _run(command: list[str], errors: Path) -> tuple[int, str]:
    """Runs a command; its exit code and the last line of its standard error that is an error. The command ends when the
    thread that started it does."""
    with errors.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=output, start_new_session=True
        )
    try:
        code = process.wait()
    except BaseException:
        _stop(process)
        raise
    with errors.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - ERROR_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    errors_found = [line for line in lines if line.startswith(ERROR) and not line.startswith(NO_ERROR)]
    return code, one_line(errors_found[-1].removeprefix(ERROR)) if errors_found else ""


def _codes(log: Path) -> tuple[str, ...]:
    """The codes of the warnings in a log, sorted."""
    with log.open("rb") as file:
        found = {each.decode() for each in _CODE.findall(file.read(LOG_BYTES))}
    return tuple(sorted(found & {code.text for code in Code}))


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
