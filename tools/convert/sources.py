"""What starts another rollup node: a command line, a file of variables, or a service of a compose file [CMD17]."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from rollup_node.node.options.errors import shown
from rollup_node.node.options.given_files import read_given_file
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.protocol.texts import one_line

PROGRAMS = ("op-node", "kona-node", "op-supernode")
PREFIXES = {"OP_NODE_": "op-node", "KONA_NODE_": "kona-node", "OP_SUPERNODE_": "op-supernode"}
MAX_BYTES = 1 << 20
MAX_DEPTH = 50
"""Of values in each other in YAML."""
_VARIABLE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_REFERENCE = re.compile(r"\$(?:\$|([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:(:?[-?])([^}]*))?\})", re.ASCII)


class Word(NamedTuple):
    """A word of a command line, and where it stands: `FILE, line N`."""

    text: str
    place: str


class Source(NamedTuple):
    """The words after the program, the variables by name, and the program if it is named."""

    words: tuple[Word, ...]
    variables: dict[str, Word]
    program: str | None


def read_sources(paths: Iterable[str], service: str | None, environ: Mapping[str, str]) -> Source:
    """Return what several files have together, words in their order. Raises SetupError, with the line.

    `service` is the one of a compose file, which is needed where several run a rollup node. `environ` is what a
    compose file may refer to, besides the `.env` in its folder."""
    words: list[Word] = []
    variables: dict[str, Word] = {}
    program = None
    for path in paths:
        text = _read(path)
        if path.endswith((".yaml", ".yml")):
            source = _compose(text, path, service, environ)
        elif all(_VARIABLE.fullmatch(line) for _, line in _lines(text)):
            source = _after_program([], _variables(text, path))
        else:
            source = _after_program(_words(text, path), {})
        words += source.words
        variables |= source.variables
        program = program or source.program
    return Source(tuple(words), variables, program)


def _read(path: str) -> str:
    try:
        data = read_given_file(path, MAX_BYTES + 1)
        text = data.decode()
    except UnicodeDecodeError:
        raise SetupError(f"{path} is not text in UTF-8") from None
    except (OSError, ValueError) as error:
        raise SetupError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_BYTES:
        raise SetupError(f"{path} is longer than {MAX_BYTES} bytes")
    return text


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are neither empty nor a comment, by number."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line.strip()


def _variables(text: str, path: str) -> dict[str, Word]:
    result = {}
    for number, line in _lines(text):
        if match := _VARIABLE.fullmatch(line):
            value = match[2].strip()
            if value[:1] in ("'", '"') and value[-1:] == value[:1] and len(value) > 1:
                value = value[1:-1]
            result[match[1]] = Word(value, f"{path}, line {number}")
    return result


def _words(text: str, path: str) -> list[Word]:
    words = [
        part for number, line in _lines(text) for part in _split(line.removesuffix("\\"), f"{path}, line {number}")
    ]
    for word in words:
        if _REFERENCE.search(word.text):
            raise SetupError(f"{word.place}: the value of a variable of the shell is wanted in its place")
    return words


def _split(line: str, place: str) -> list[Word]:
    try:
        words = shlex.split(line)
    except ValueError:
        raise SetupError(f"{place}: a quote has no end on its line") from None
    # shlex takes a # within a word for a comment too.
    return [Word(text, place) for text in takewhile(lambda text: not text.startswith("#"), words)]


def _after_program(words: list[Word], variables: dict[str, Word], image: str = "") -> Source:
    """Return the words after the last that is a program's name; those before it may set variables."""
    names = [_program(word.text) for word in words]
    last = max((index for index, name in enumerate(names) if name is not None), default=-1)
    for word in words[: last + 1]:
        if match := _VARIABLE.fullmatch(word.text):
            variables = {**variables, match[1]: Word(match[2], word.place)}
    program = names[last] if last >= 0 else _program(image)
    prefixes = (name for prefix, name in PREFIXES.items() if any(key.startswith(prefix) for key in variables))
    return Source(tuple(words[last + 1 :]), variables, program or next(prefixes, None))


def _program(text: str) -> str | None:
    """Return the program that a path or the name of an image ends with."""
    name = text.partition("@")[0].rpartition("/")[2].partition(":")[0]
    return name if name in PROGRAMS else None


def _compose(text: str, path: str, service: str | None, environ: Mapping[str, str]) -> Source:
    """Return what the service of a compose file runs. Raises SetupError without one, and for several."""
    env_file = Path(path).parent / ".env"
    known = (
        {name: word.text for name, word in _variables(_read(str(env_file)), "").items()} if env_file.exists() else {}
    )
    services = _Node(_yaml(text, path), path, {**known, **environ}).mapping().get("services")
    if services is None:
        raise SetupError(f"{path} has no services: it is no compose file")
    sources = {name: _service(node) for name, node in services.mapping().items()}
    if service is not None and service not in sources:
        raise SetupError(f"{path} has no service {shown(service)}; there are {', '.join(sources)}")
    matching = [name for name, source in sources.items() if source.program] if service is None else [service]
    if len(matching) != 1:
        named = f"{', '.join(matching)} of {path} do: choose one with --service" if matching else f"none in {path} does"
        raise SetupError(f"the service that runs {', '.join(PROGRAMS[:-1])} or {PROGRAMS[-1]} is wanted; {named}")
    return sources[matching[0]]


def _service(node: "_Node") -> Source:
    members = node.mapping()
    variables: dict[str, Word] = {}
    for file in members["env_file"].items() if "env_file" in members else ():
        name = file.mapping()["path"] if file.node.id == "mapping" and "path" in file.mapping() else file
        path = str(Path(node.path).parent / name.text().text)
        variables |= _variables(_read(path), path)
    if "environment" in members:
        variables |= members["environment"].pairs()
    words = [word for name in ("entrypoint", "command") if name in members for word in members[name].words()]
    image = members["image"].text() if "image" in members else Word("", "")
    return _after_program(words, variables, image.text)


class _Node:
    """A value of a YAML file with its line; references to variables in texts are replaced."""

    def __init__(self, node: Any, path: str, known: Mapping[str, str]) -> None:
        self.node, self.path, self._known = node, path, known

    @property
    def place(self) -> str:
        return f"{self.path}, line {self.node.start_mark.line + 1}"

    def _of(self, node: Any) -> "_Node":
        return _Node(node, self.path, self._known)

    def mapping(self) -> dict[str, "_Node"]:
        """Return the values by key, with those that `<<` merges. Raises SetupError for other nodes."""
        return {key: self._of(node) for key, node in self._merged(self.node, {}).items()}

    def _merged(self, node: Any, done: dict[int, dict[str, Any]]) -> dict[str, Any]:
        if node.id != "mapping":
            raise SetupError(f"{self._of(node).place}: a mapping is expected")
        if id(node) not in done:
            done[id(node)] = {}
            merged: dict[str, Any] = {}
            for key, value in node.value:
                if key.value == "<<":
                    for part in value.value if value.id == "sequence" else [value]:
                        merged = self._merged(part, done) | merged
            done[id(node)] = merged | {str(key.value): value for key, value in node.value if key.value != "<<"}
        return done[id(node)]

    def text(self) -> Word:
        """Return a text. Raises SetupError for other nodes, and for a variable without a value."""
        if self.node.id != "scalar":
            raise SetupError(f"{self.place}: a text is expected")
        return Word(_REFERENCE.sub(self._value, self.node.value), self.place)

    def _value(self, match: re.Match[str]) -> str:
        name, operator, default = match[1] or match[2], match[3] or "", match[4] or ""
        if name is None:
            return "$"
        value = self._known.get(name)
        if value is not None and (value or not operator.startswith(":")):
            return value
        if operator.endswith("-"):
            return default
        raise SetupError(f"{self.place}: the variable {name} has no value: put it into .env beside {self.path}")

    def items(self) -> list["_Node"]:
        """Return the items of a list, or the value alone."""
        return [self._of(item) for item in self.node.value] if self.node.id == "sequence" else [self]

    def texts(self) -> list[Word]:
        """Return a text, or those of a list."""
        return [item.text() for item in self.items()]

    def words(self) -> list[Word]:
        """Return the words of a command, which is a list, or one text as a shell splits it."""
        if self.node.id == "scalar":
            return self._lines_of_block()
        words = self.texts()
        # The program of `sh -c`.
        return [*words[:2], *_split_all(words[2])] if len(words) > 2 and words[1].text.endswith("c") else words

    def _lines_of_block(self) -> list[Word]:
        word, first = self.text(), self.node.start_mark.line + 2
        if self.node.style != "|":
            return _split_all(word)
        lines = enumerate(word.text.splitlines(), first)
        return [
            part for number, line in lines for part in _split(line.removesuffix("\\"), f"{self.path}, line {number}")
        ]

    def pairs(self) -> dict[str, Word]:
        """Return the variables of a mapping, or of a list of NAME=value."""
        if self.node.id == "mapping":
            return {name: node.text() for name, node in self.mapping().items()}
        pairs = ((word.text.partition("="), word.place) for word in self.texts())
        return {name: Word(value, place) for (name, equals, value), place in pairs if equals}


def _split_all(word: Word) -> list[Word]:
    return _split(word.text.replace("\\\n", " "), word.place)


def _yaml(text: str, path: str) -> Any:
    """Return the root node of a YAML text. Raises SetupError for any other."""
    depth = 0
    try:
        for event in yaml.parse(text):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise SetupError(f"{path}, line {event.start_mark.line + 1}: it is nested too deeply")
        node = yaml.compose(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise SetupError(f"{path}{line} is not YAML: {one_line(str(error.problem))}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise SetupError(f"{path} is not YAML: {one_line(str(error))}") from None
    if node is None:
        raise SetupError(f"{path} is empty")
    return node
