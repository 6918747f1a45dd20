"""The metrics of all processes, on any path [MET1]."""

import re
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from aiohttp import web

from rollup_node.stages.io.metrics.meter import LABELLED_FAMILIES
from rollup_node.stages.rpc.process.listener import Exchange

KEPT_SECONDS = 1.0
"""How long a merged text answers further scrapes; the processes write theirs every 2 s."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)
_HAS_PROCESS = re.compile(r'\{(?:[^"]*="(?:[^"\\]|\\.)*",)*process="')


class MetricsServer:
    """Merges the `<process>.prom` files of a directory, which the processes keep writing."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)
        self._merged = b""
        self._merged_at = -KEPT_SECONDS

    async def handle(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        if time.monotonic() - self._merged_at >= KEPT_SECONDS:
            self._merged = merge_expositions(self._texts(), LABELLED_FAMILIES).encode()
            self._merged_at = time.monotonic()
        return web.Response(body=self._merged, headers={"Content-Type": CONTENT_TYPE})

    def _texts(self) -> dict[str, str]:
        texts: dict[str, str] = {}
        for path in sorted(self._directory.glob("*.prom")):
            try:
                texts[path.stem] = path.read_text()
            except (OSError, UnicodeDecodeError):
                continue
        return texts


def process_names(directory: Path) -> tuple[str, ...]:
    """Return the processes that write metrics there, but for the supervisor, which serves nobody."""
    return tuple(sorted(path.stem for path in directory.glob("*.prom") if path.stem != "supervisor"))


def merge_expositions(texts: Mapping[str, str], labelled: Collection[str]) -> str:
    """Return one exposition from those of several processes, by process name, without lines that are no samples.

    The samples of the families `labelled` get the label `process`, unless they have one."""
    headers: dict[str, dict[str, str]] = {}
    samples: dict[str, list[str]] = {}
    for process, text in texts.items():
        family = ""
        for line in text.split("\n"):
            if line.startswith("#"):
                words = line.split(" ", 3)
                if len(words) >= 3 and words[1] in ("HELP", "TYPE"):
                    family = words[2]
                    headers.setdefault(family, {}).setdefault(words[1], line)
            elif match := _NAME.match(line):
                group = family if family and match[0].startswith(family) else match[0]
                shown = _with_process_label(line, match.end(), process) if group in labelled else line
                samples.setdefault(group, []).append(shown)
    lines = [line for family, result in samples.items() for line in (*headers.get(family, {}).values(), *result)]
    return "".join(f"{line}\n" for line in lines)


def _with_process_label(line: str, end: int, process: str) -> str:
    if _HAS_PROCESS.match(line, end):
        return line
    label = f'process="{process}"'
    if line[end : end + 1] == "{":
        separator = "" if line[end + 1 : end + 2] == "}" else ","
        return f"{line[:end]}{{{label}{separator}{line[end + 1 :]}"
    return f"{line[:end]}{{{label}}}{line[end:]}"
