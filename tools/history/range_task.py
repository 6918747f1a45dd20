"""One range: a subprocess of the node's own stages, whose rows become the files of the range."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import msgspec

from rollup_node.node.options.errors import shown
from rollup_node.node.system.exit_codes import SetupError, version
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.texts import escaped_line
from rollup_node.tools.history.derivation_stage import OVERLAP, RESULT, RangeResult
from rollup_node.tools.history.folder import HistoryFolder, file_entry
from rollup_node.tools.history.manifest import L1Range, ManifestRow, Resume
from rollup_node.tools.history.tables import Table

ATTEMPTS = 3
"""How often a range is begun whose processes are killed."""
RESUME = "resume.json"
ERROR_BYTES = 8_192
PIPE_BYTES = 65_536
STOP_SECONDS = 10.0
ERROR = "rollup-node: "
LOG_BYTES = 1 << 20
"""The part of the log in which codes are searched."""
_CODE = re.compile(rb'\bcode"?[=:] ?"?([A-Z][A-Z0-9-]+)')
WAITING = f"{ERROR}waiting"
NO_ERROR = (f"{ERROR} ", f"{ERROR}warning: ", WAITING)


class RangeFailed(Exception):
    """The range was not derived. The text is one line that says why."""


class RangeTask(msgspec.Struct, frozen=True):
    """What a worker needs to run a range.

    `arguments` are the options of `rollup-node history range` that are the same for all ranges; `floor` is the first
    L1 block that may be read with a file of L2 blocks; `config` is the digest of the run, `form` the ending of the
    files, `batcher` the one to begin with where there is no L2 source, None for that of the chain's genesis,
    `resume` the state to derive from without one, after the range `after`. Times are in seconds."""

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
    """Run a range and publish its files.

    Raises RangeFailed where it cannot be derived or written, with nothing changed that was complete before."""
    if task.version != version():
        raise RangeFailed(f"the worker has version {version()}, the run {task.version}: install the same version")
    if task.form == "parquet" and find_spec("pyarrow") is None:
        raise RangeFailed("the worker lacks the package pyarrow: install rollup-node[history] there")
    wanted, folder, began = L1Range(task.first, task.last), HistoryFolder(Path(task.out)), time.monotonic()
    partial: Path | None = None
    try:
        _check_folder(folder, task)
        partial = folder.partial(wanted)
        rows = partial / "rows"
        result, log = _derive(task, rows)
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
            warnings=_codes(log),
            batcher=result.batcher,
            resume=result.resume,
        )
        if result.resume is not None:
            folder.keep_overlap(wanted, rows / OVERLAP)
        folder.publish(row, files)
        return row
    except OSError as error:
        raise RangeFailed(f"its files cannot be written: {error.strerror or escaped_line(str(error))}") from None
    except ValueError as error:
        raise RangeFailed(f"its files cannot be written: {escaped_line(str(error))}") from None
    except SetupError as error:
        raise RangeFailed(str(error)) from None
    finally:
        if partial is not None:
            shutil.rmtree(partial, ignore_errors=True)


def _check_folder(folder: HistoryFolder, task: RangeTask) -> None:
    """Raise RangeFailed where the folder is not that of the run: another machine may not see it."""
    run = folder.run_file()
    if run is None or run.config.digest != task.config:
        where = f"{os.uname().nodename} does not see the run in {shown(task.out)}"
        raise RangeFailed(f"{where}: all workers need the folder under the same path")


def _file(task: RangeTask, wanted: L1Range, rows: Path, name: str) -> tuple[Path, str]:
    """Return a file of the range in its form, and its name below the output folder."""
    path = f"{name.removesuffix('.jsonl')}/{wanted.name}.{task.form}"
    if task.form == "jsonl":
        return rows, path
    from rollup_node.tools.history.tables import write_parquet

    target = rows.with_suffix(f".{task.form}")
    write_parquet(Table(name.partition("/")[0]), rows, target)
    return target, path


def _derive(task: RangeTask, rows: Path) -> tuple[RangeResult, bytes]:
    """Run the processes of the range until they have written all rows below `rows`; their result and their log."""

    def prepared() -> list[str]:
        shutil.rmtree(rows, ignore_errors=True)
        rows.mkdir()
        if task.resume is not None:
            (rows.parent / RESUME).write_bytes(msgspec.json.encode(task.resume))
        return _command(task, rows)

    log = run_processes(prepared, rows / RESULT)
    return msgspec.json.decode((rows / RESULT).read_bytes(), type=RangeResult), log


def run_processes(prepared: Callable[[], list[str]], result: Path) -> bytes:
    """Run the processes of a range until they have written the file `result`, and return their log.

    Their command, for which `prepared` makes ready, is begun again when it is killed. Raises RangeFailed when it
    fails."""
    for attempt in range(1, ATTEMPTS + 1):
        code, log = _run(prepared())
        if code == 0 and result.exists():
            return log.head
        if code == 1 or attempt == ATTEMPTS:
            raise RangeFailed(log.error or f"its processes ended with exit code {code}")
    raise AssertionError("unreachable")


def _command(task: RangeTask, rows: Path) -> list[str]:
    flags = ["--from-l1", str(task.first), "--to-l1", str(task.last), "--rows", str(rows)]
    flags += ["--warmup", str(task.warmup), "--floor", str(task.floor), "--parent", str(os.getpid())]
    if task.safe_head is not None:
        flags += ["--safe-head", str(task.safe_head)]
    if task.resume is not None:
        flags += ["--resume", str(rows.parent / RESUME)]
    overlap = None if task.after is None else HistoryFolder(Path(task.out)).overlap(task.after)
    if overlap is not None and overlap.exists():
        flags += ["--overlap", str(overlap)]
    if task.batcher is not None:
        flags += ["--batcher", task.batcher]
    return [sys.executable, "-m", "rollup_node", "history", "range", *flags, *task.arguments]


class _Log:
    """What processes write to standard error, which is no file: where the disk is full they could not say so.

    Kept are the first `LOG_BYTES` and the last `ERROR_BYTES`. What they wait for is written on at once."""

    def __init__(self, source: IO[bytes]) -> None:
        self.head = self._tail = b""
        self._source = source
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        rest = b""
        while data := os.read(self._source.fileno(), PIPE_BYTES):
            *lines, rest = (rest[-ERROR_BYTES:] + data).split(b"\n")
            for line in lines:
                if line.startswith(WAITING.encode()):
                    print(escaped_line(line.decode(errors="replace")), file=sys.stderr, flush=True)
            self.head += data[: LOG_BYTES - len(self.head)]
            self._tail = (self._tail + data)[-ERROR_BYTES:]

    def close(self) -> None:
        """Wait until the processes have ended that write."""
        self._reader.join(STOP_SECONDS)
        if not self._reader.is_alive():
            self._source.close()

    @property
    def error(self) -> str:
        """The last line that is an error; empty without one."""
        lines = self._tail.decode(errors="replace").splitlines()
        result = [line for line in lines if line.startswith(ERROR) and not line.startswith(NO_ERROR)]
        return escaped_line(result[-1].removeprefix(ERROR)) if result else ""


def _run(command: list[str]) -> tuple[int, _Log]:
    """Run a command; its exit code and its log. The command ends when the thread that started it does."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    assert process.stderr is not None
    log = _Log(process.stderr)
    try:
        code = process.wait()
    except BaseException:
        _stop(process)
        raise
    finally:
        log.close()
    return code, log


def _codes(log: bytes) -> tuple[str, ...]:
    """Return the codes of the warnings in a log, sorted."""
    result = {item.decode() for item in _CODE.findall(log)}
    return tuple(sorted(result & {code.text for code in Code}))


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
