"""The metrics of all processes as one exposition: each sample gets its process as a label. Works on text, as parsing
sixteen kilobytes per process at each scrape would cost ten times as much."""

import re
from collections.abc import Mapping

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)
_HAS_PROCESS = re.compile(r'\{(?:[^"]*="(?:[^"\\]|\\.)*",)*process="')


def merge(texts: Mapping[str, str]) -> str:
    """One exposition of many, by process; a sample that names a process already keeps it. Families stay together,
    each with its HELP and TYPE once; lines that are no samples are left out."""
    heads: dict[str, dict[str, str]] = {}
    samples: dict[str, list[str]] = {}
    for process, text in texts.items():
        family = ""
        for line in text.split("\n"):
            if line.startswith("#"):
                words = line.split(" ", 3)
                if len(words) >= 3 and words[1] in ("HELP", "TYPE"):
                    family = words[2]
                    heads.setdefault(family, {}).setdefault(words[1], line)
            elif match := _NAME.match(line):
                group = family if family and match[0].startswith(family) else match[0]
                samples.setdefault(group, []).append(_labelled(line, match.end(), process))
    lines = [line for family, found in samples.items() for line in (*heads.get(family, {}).values(), *found)]
    return "".join(f"{line}\n" for line in lines)


def _labelled(line: str, end: int, process: str) -> str:
    if _HAS_PROCESS.match(line, end):
        return line
    label = f'process="{process}"'
    if line[end : end + 1] == "{":
        separator = "" if line[end + 1 : end + 2] == "}" else ","
        return f"{line[:end]}{{{label}{separator}{line[end + 1 :]}"
    return f"{line[:end]}{{{label}}}{line[end:]}"
