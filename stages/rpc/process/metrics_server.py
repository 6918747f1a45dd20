"""The metrics of all processes, on any path [MET1]."""

import re
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from aiohttp import web

from rollup_node.stages.io.metrics.meter import EXEMPLAR, LABELLED_FAMILIES
from rollup_node.stages.rpc.process.listener import Exchange

KEPT_SECONDS = 1.0
"""How long a merged text answers further scrapes; the processes write theirs every 2 s."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_EXEMPLAR = re.compile(rf' # \{{{EXEMPLAR}="[0-9a-f]+"\}} \S+ \S+$', re.MULTILINE)
_NEGATIVE = re.compile(r'^(\w+)_bucket\{[^\n]*le="-', re.MULTILINE)
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)
_HAS_PROCESS = re.compile(r'\{(?:[^"]*="(?:[^"\\]|\\.)*",)*process="')


class MetricsServer:
    """Merges the `<process>.prom` files of a directory, which the processes keep writing."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)
        self._merged = self._plain = ""
        self._merged_at = -KEPT_SECONDS

    async def handle(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        """Answer with the text; as OpenMetrics where the client takes that and there are exemplars [MET31]."""
        if time.monotonic() - self._merged_at >= KEPT_SECONDS:
            self._merged = merge_expositions(self._texts(), LABELLED_FAMILIES)
            self._plain = _EXEMPLAR.sub("", self._merged)
            self._merged_at = time.monotonic()
        if self._plain != self._merged and "application/openmetrics-text" in request.headers.get("Accept", ""):
            return web.Response(body=open_metrics(self._merged).encode(), headers={"Content-Type": OPEN_METRICS})
        return web.Response(body=self._plain.encode(), headers={"Content-Type": CONTENT_TYPE})

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


def open_metrics(text: str) -> str:
    """Return a merged exposition as OpenMetrics.

    Samples of counters end in `_total` there, others are unknown; histograms of negative values have buckets alone."""
    lines = []
    negative = {f"{name}_{part}" for name in _NEGATIVE.findall(text) for part in ("sum", "count")}
    counters = set(re.findall(r"^# TYPE (\w+)_total counter$", text, re.MULTILINE))
    for line in text.split("\n")[:-1]:
        if line.startswith("# "):
            _, word, family, rest = [*line.split(" ", 3), ""][:4]
            family = family.removesuffix("_total") if family.removesuffix("_total") in counters else family
            kind = "unknown" if rest in ("counter", "untyped") and family not in counters else rest
            line = f"# {word} {family} {kind}" if word == "TYPE" else f"# {word} {family} {_quoted(rest)}"
        elif negative and re.split("[{ ]", line, maxsplit=1)[0] in negative:
            continue
        lines.append(line)
    return "".join(f"{line}\n" for line in (*lines, "# EOF"))


def _quoted(text: str) -> str:
    return text.replace('"', '\\"')


def _with_process_label(line: str, end: int, process: str) -> str:
    if _HAS_PROCESS.match(line, end):
        return line
    label = f'process="{process}"'
    if line[end : end + 1] == "{":
        separator = "" if line[end + 1 : end + 2] == "}" else ","
        return f"{line[:end]}{{{label}{separator}{line[end + 1 :]}"
    return f"{line[:end]}{{{label}}}{line[end:]}"
