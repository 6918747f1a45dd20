"""Which profiles a node makes, and the file of `pprof.type` [LIF16, LIF18, LIF19]."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rollup_node.stages.io.files.private_files import replace_private_file
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.profiling.profile import AT_STOP, ProfileFiles, encode, merge
from rollup_node.stages.messages.codes import Code


@dataclass(frozen=True)
class ProfilingSettings:
    """`is_served`: the rpc process serves profiles, so each process looks for requests.

    `kind` is the profile that is written to `path` when the node stops; without both, nothing runs."""

    is_served: bool = False
    kind: str | None = None
    path: Path = Path()


def profile_path(text: str | None, kind: str) -> Path:
    """Return the file of `pprof.path`: `<kind>.prof` in an existing or the working folder, or the file [LIF19]."""
    path = Path(text or ".").absolute()
    return path / f"{kind}.prof" if path.is_dir() else path


log = Logger("supervisor")


def write_profile(settings: ProfilingSettings, folder: Path, processes: Iterable[str]) -> None:
    """Write the profile of the node, if one is wanted; an error is logged."""
    if settings.kind is None:
        return
    files = ProfileFiles(folder)
    read = {name: files.read_answer(AT_STOP, name) for name in processes}
    result = {name: profile for name, profile in read.items() if profile is not None}
    merged = merge(result, tuple(name for name in read if name not in result))
    if merged is None:
        log.warn("no process wrote its profile", code=Code.FILE.text, type=settings.kind)
        return
    try:
        replace_private_file(settings.path, encode(merged))
    except OSError as error:
        log.error("cannot write the profile", code=Code.FILE.text, path=settings.path, error=error)
        return
    log.info("wrote the profile", type=settings.kind, path=settings.path, processes=len(result))
