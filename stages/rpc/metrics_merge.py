"""Merges the Prometheus expositions of all processes into one.

What every process has gets the process as a label; all else is counted by one process alone, and its labels are
op-node's [MET27].

It works on the text: parsing sixteen kilobytes per process at each scrape costs ten times as much."""

import re
from collections.abc import Collection, Mapping

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)
_HAS_PROCESS = re.compile(r'\{(?:[^"]*="(?:[^"\\]|\\.)*",)*process="')


def merge_expositions(texts: Mapping[str, str], labelled: Collection[str]) -> str:
    """One exposition from those of several processes, by process name.

    The samples of the families `labelled` get the label `process`, unless they have one. Each family appears once,
    with one HELP and one TYPE line; lines that are no samples are dropped."""
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
    lines = [line for family, found in samples.items() for line in (*headers.get(family, {}).values(), *found)]
    return "".join(f"{line}\n" for line in lines)


def _with_process_label(line: str, end: int, process: str) -> str:
    if _HAS_PROCESS.match(line, end):
        return line
    label = f'process="{process}"'
    if line[end : end + 1] == "{":
        separator = "" if line[end + 1 : end + 2] == "}" else ","
        return f"{line[:end]}{{{label}{separator}{line[end + 1 :]}"
    return f"{line[:end]}{{{label}}}{line[end:]}"
