"""The file of `pprof.type`, put together from the profiles that the processes wrote at their end [LIF18]."""

from collections.abc import Iterable
from pathlib import Path

from rollup_node.node.system.profiling import ProfilingSettings
from rollup_node.stages.io.files.private_files import replace_private_file
from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.io.profiling.profile import encode, merge
from rollup_node.stages.io.profiling.profile_files import ProfileFiles
from rollup_node.stages.messages.codes import Code

log = get_logger("supervisor")


def write_profile(settings: ProfilingSettings, folder: Path, processes: Iterable[str]) -> None:
    """Write the profile of the node, if one is wanted; an error is logged."""
    if settings.kind is None:
        return
    files = ProfileFiles(folder)
    read = {name: files.read_last(name) for name in processes}
    found = {name: profile for name, profile in read.items() if profile is not None}
    merged = merge(found, tuple(name for name in read if name not in found))
    if merged is None:
        log.warn("no process wrote its profile", code=Code.FILE.text, type=settings.kind)
        return
    try:
        replace_private_file(settings.path, encode(merged))
    except OSError as error:
        log.error("cannot write the profile", code=Code.FILE.text, path=settings.path, error=error)
        return
    log.info("wrote the profile", type=settings.kind, path=settings.path, processes=len(found))
