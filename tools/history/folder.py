"""The output folder of a history.

`run.json`, a folder for each table with a folder for each L1 day, and `manifest/` with a file for each complete range,
which is written last."""

import fcntl
import os
import shutil
from collections.abc import Container, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import msgspec

from rollup_node.node.options.errors import shown
from rollup_node.node.options.given_files import regular_file
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.tools.history.manifest import (
    MAX_BYTES,
    L1Range,
    ManifestError,
    ManifestRow,
    RunConfig,
    TableFile,
    check_plan,
    decode_checked,
    decode_manifest,
    plan_ranges,
    with_checksum,
)
from rollup_node.tools.history.tables import Table

RUN_FILE = "run.json"
MANIFESTS = "manifest"
PARTIAL = ".partial"
OVERLAPS = ".overlap"
LOCK = ".lock"
MAX_RUN_BYTES = 1 << 20
BLOCK = 1 << 20


class RunFile(msgspec.Struct, frozen=True):
    """What a folder holds.

    The configuration of its tables, the chain's name, and the last L1 block that was asked for."""

    config: RunConfig
    chain: str
    last: int

    @property
    def plan(self) -> tuple[L1Range, ...]:
        """The ranges of the run."""
        return plan_ranges(self.config.first, self.last, self.config.size)


def history_folder(text: str) -> "HistoryFolder":
    """Return the folder of --out. Raises SetupError for a URL, and for no name."""
    if not text:
        raise SetupError("--out: it is empty: name a folder")
    if "://" in text:
        raise SetupError(f"--out: {shown(text)} is a URL, not a folder: mount the storage and name the folder there")
    return HistoryFolder(Path(text).absolute())


class HistoryFolder:
    """An output folder. All methods raise SetupError where the disk refuses."""

    def __init__(self, path: Path) -> None:
        self.path = path

    # --- the run ---------------------------------------------------------------------------------------------------

    def run_file(self) -> RunFile | None:
        """Return what the folder holds; None where it does not exist or is empty.

        Raises SetupError for a folder of something else."""
        try:
            data = _read(self.path / RUN_FILE, MAX_RUN_BYTES)
            run = decode_checked(data, RunFile)
            check_plan(run.config.first, run.last, run.config.size)
            return run
        except (FileNotFoundError, NotADirectoryError):
            pass
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise SetupError(
                f"--out: {shown(str(self.path / RUN_FILE))} is unreadable: {reason}: name another folder"
            ) from None
        try:
            if self.path.exists() and not self.path.is_dir():
                raise SetupError(f"--out: {shown(str(self.path))} is not a folder: name one")
            if self.path.exists() and not self._is_unused():
                raise SetupError(
                    f"--out: {shown(str(self.path))} is not empty and holds no history: name another folder"
                )
        except OSError as error:
            raise SetupError(f"--out: cannot read {shown(str(self.path))}: {error.strerror}") from None
        return None

    def _is_unused(self) -> bool:
        return self.path.is_dir() and all(item.name == LOCK for item in self.path.iterdir())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs out of the folder, which is created if it does not exist; the lock ends with the process.

        Raises SetupError where another run has it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.path / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SetupError(f"--out: cannot write {shown(str(self.path))}: {error.strerror}") from None
        try:
            self._lock(lock)
            yield
        finally:
            os.close(lock)

    def is_locked(self) -> bool:
        """Whether a run writes the folder now, on this machine or, where the file system has locks, on another."""
        try:
            descriptor = os.open(self.path / LOCK, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return False

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = f"--out: another run writes {shown(str(self.path))}: wait for its end, or name another folder"
            raise SetupError(text) from None
        except OSError as error:
            raise SetupError(f"--out: cannot lock {shown(str(self.path))}: {error.strerror}") from None

    def existing(self) -> RunFile:
        """Return what the folder holds. Raises SetupError where that is nothing."""
        run = self.run_file()
        if run is None:
            raise SetupError(f"--out: there is no history in {shown(str(self.path))}")
        return run

    def open(self, run: RunFile) -> None:
        """Start or continue a run.

        Raises SetupError where the folder holds another one, of which nothing is changed."""
        known = self.run_file()
        if known is not None and known.config != run.config:
            names = [name for name in RunConfig.__struct_fields__ if _differ(known.config, run.config, name)]
            raise SetupError(
                f"--out: {shown(str(self.path))} holds another run ({', '.join(names)} differ): name another folder"
            )
        if known is None or known.last < run.last:
            self._write(self.path / RUN_FILE, with_checksum(run))

    # --- ranges ----------------------------------------------------------------------------------------------------

    def manifests(self) -> dict[str, ManifestRow]:
        """Return the complete ranges by name. One whose manifest is unreadable is none."""
        return self.readable_manifests()[0]

    def readable_manifests(self) -> tuple[dict[str, ManifestRow], list[str]]:
        """Return the complete ranges by name, and a line for each manifest that is unreadable."""
        result, damaged = {}, []
        for path in sorted((self.path / MANIFESTS).glob("range-*.json")):
            try:
                result[path.stem] = decode_manifest(_read(path, MAX_BYTES))
            except (OSError, ManifestError) as error:
                damaged.append(f"{shown(str(path))} is unreadable ({getattr(error, 'strerror', None) or error})")
        return result, damaged

    def usable_manifests(self) -> tuple[dict[str, ManifestRow], list[str]]:
        """Return the complete ranges by name whose files are there with their sizes, and a line for each other one."""
        result, lost = self.readable_manifests()
        for name, row in list(result.items()):
            wrong = next((file.path for file in row.files if _size(self.path / file.path) != file.size), None)
            if wrong is not None:
                del result[name]
                lost.append(f"{wrong} is missing or of another size than its manifest says")
        return result, lost

    def files_of_no_range(self, names: Container[str]) -> Iterator[str]:
        """Yield a line for each file of a table whose range is none of these."""
        for table in Table:
            for path in sorted((self.path / table.value).glob("day=*/*")):
                if path.stem not in names:
                    yield f"{path.relative_to(self.path)}: in no manifest"

    def partial(self, l1_range: L1Range) -> Path:
        """Return a new folder for the files of a range that is being run.

        What was left of runs of the range is removed."""
        path = self.path / PARTIAL / f"{l1_range.name}.{os.uname().nodename}.{os.getpid()}"
        try:
            for left in path.parent.glob(f"{l1_range.name}.*"):
                shutil.rmtree(left, ignore_errors=True)
            path.mkdir(parents=True)
        except OSError as error:
            raise SetupError(f"--out: cannot write {shown(str(path))}: {error.strerror}") from None
        return path

    def publish(self, row: ManifestRow, files: dict[str, Path]) -> None:
        """Give the files of a range their names, and last of all writes its manifest.

        A range that was complete before is replaced: its manifest goes first, once all that is new is on disk."""
        manifest = self.path / MANIFESTS / f"{row.range.name}.json"
        try:
            with self._written(manifest, with_checksum(row)) as temporary:
                for source in files.values():
                    _sync(source)
                manifest.unlink(missing_ok=True)
                for path in self._files_of(row.range):
                    path.unlink()
                for name, source in files.items():
                    target = self.path / name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    os.replace(source, target)
                for folder in {(self.path / name).parent for name in files}:
                    _sync(folder)
                os.replace(temporary, manifest)
                _sync(manifest.parent)
        except OSError as error:
            raise SetupError(f"--out: L1 blocks {row.range}: {error.strerror}: {shown(str(error.filename))}") from None

    def overlap(self, l1_range: L1Range) -> Path:
        """Return the file with the last blocks of a range that was derived without an L2 source."""
        return self.path / OVERLAPS / f"{l1_range.name}.msgpack"

    def keep_overlap(self, l1_range: L1Range, source: Path) -> None:
        """Give the last blocks of a range their name. Of all ranges, those of the newest two are kept."""
        target = self.overlap(l1_range)
        try:
            target.parent.mkdir(exist_ok=True)
            os.replace(source, target)
            for old in sorted(target.parent.glob("range-*.msgpack"))[:-2]:
                old.unlink()
        except OSError as error:
            raise SetupError(f"--out: cannot write {shown(str(target))}: {error.strerror}") from None

    def file_problems(self, row: ManifestRow) -> Iterator[str]:
        """Yield what differs between the files of a range and its manifest."""
        for file in row.files:
            path = self.path / file.path
            if ".." in path.parts or not path.is_relative_to(self.path):
                yield f"{file.path}: not below the folder"
                continue
            try:
                result = file_entry(path, file.path, file.table, file.rows)
            except OSError as error:
                yield f"{file.path}: {error.strerror}"
                continue
            if result != file:
                yield f"{file.path}: {result.size} bytes with SHA-256 {result.sha256}, not those of the manifest"
        known = {self.path / file.path for file in row.files}
        yield from (
            f"{path.relative_to(self.path)}: in no manifest" for path in self._files_of(row.range) if path not in known
        )

    def _files_of(self, l1_range: L1Range) -> list[Path]:
        return [path for table in Table for path in sorted((self.path / table.value).glob(f"day=*/{l1_range.name}.*"))]

    def _write(self, path: Path, data: bytes) -> None:
        try:
            with self._written(path, data) as temporary:
                os.replace(temporary, path)
                _sync(path.parent)
        except OSError as error:
            raise SetupError(f"--out: cannot write {shown(str(path))}: {error.strerror}") from None

    @contextmanager
    def _written(self, path: Path, data: bytes) -> Iterator[Path]:
        """Yield a temporary file beside a path, on disk with these data, which is removed unless it is renamed."""
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Return once a file, or the names in a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_entry(path: Path, name: str, table: str, rows: int) -> TableFile:
    """Return the entry of a file in a manifest. Raises OSError where it cannot be read."""
    digest = sha256()
    with regular_file(path) as file:
        while block := file.read(BLOCK):
            digest.update(block)
        return TableFile(name, table, rows, file.tell(), digest.hexdigest())


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except (OSError, ValueError):
        return -1


def _read(path: Path, most: int) -> bytes:
    with regular_file(path) as file:
        return file.read(most + 1)


def _differ(known: RunConfig, run: RunConfig, name: str) -> bool:
    return bool(getattr(known, name) != getattr(run, name))
