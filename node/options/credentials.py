"""Options in files of a folder: systemd's credentials, or a secret that Kubernetes mounts [OPT87]."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rollup_node.node.options.environment import OuterOptions
from rollup_node.node.options.errors import OptionError, did_you_mean, reject_end_of_options, shown
from rollup_node.node.options.file import ScopeOf
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.options.value_types import OPTIONAL_PATH, PATH, ValueType
from rollup_node.stages.io.files.private_files import read_secret_file

FOLDER = "CREDENTIALS_DIRECTORY"
"""The variable with which systemd names the folder."""
MAX_FILE = 1 << 16
"""Bytes."""
MAX_UNKNOWN = 40
"""Files for which a similar option is looked for."""


def read_credentials(environ: Mapping[str, str], scope_of: ScopeOf = lambda name: ("", OPTIONS)) -> OuterOptions:
    """Return the options that the folder has: the content of each file named as one, or its path where that is wanted.

    Files of other names are for other programs, and a warning if an option of that topic has nearly that name."""
    folder = environ.get(FOLDER)
    if not folder:
        return OuterOptions()
    values: dict[str, str] = {}
    unknown: list[tuple[str, str]] = []
    warnings, errors = [], []
    try:
        present = sorted(os.listdir(folder))
    except OSError as error:
        return OuterOptions(errors=(f"variable {FOLDER} names {shown(folder)}: {error.strerror}",))
    for file in present:
        prefix, options = scope_of(file)
        name = file.removeprefix(prefix)
        if name == "config":
            continue
        if name in options:
            try:
                values[f"{prefix}{options[name].name}"] = _value(Path(folder, file), options[name].value_type)
            except OptionError as error:
                errors.append(str(error))
        elif any(option.startswith(f"{name.partition('.')[0]}.") for option in options):
            unknown.append((file, name))
    for file, name in unknown[:MAX_UNKNOWN]:
        prefix, options = scope_of(file)
        if hint := did_you_mean(name, options, prefix):
            warnings.append(f"credential {file[:100]} is no option and is ignored{hint}")
    sources = {name: f"credential {name} in {folder}" for name in values}
    return OuterOptions(values, sources, tuple(warnings), tuple(errors), tuple(values.items()))


def _value(path: Path, value_type: ValueType[Any]) -> str:
    """Return what the file sets. Raises OptionError."""
    if value_type in (PATH, OPTIONAL_PATH):
        return str(path.absolute())
    try:
        data = read_secret_file(path, MAX_FILE + 1)
    except OSError as error:
        raise OptionError(f"credential {path}: {error.strerror}") from None
    if len(data) > MAX_FILE:
        raise OptionError(f"credential {path}: longer than {MAX_FILE} bytes")
    try:
        text = data.decode().strip()
    except UnicodeDecodeError:
        raise OptionError(f"credential {path}: not text in UTF-8") from None
    if not text:
        raise OptionError(f"credential {path}: it is empty")
    reject_end_of_options(text, f"credential {path.name}")
    return text
