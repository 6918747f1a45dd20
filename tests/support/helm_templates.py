"""Renders the templates of a chart: the part of Helm's language that deploy/helm uses, and an error for any other.

Where the program `helm` is found, test_helm_chart.py compares both."""

import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

_ACTION = re.compile(r"\{\{(-\s)?\s*(.*?)\s*(\s-)?\}\}", re.DOTALL)
_WORD = re.compile(r'\s*("(?:[^"\\]|\\.)*"|\(|\)|\||[^\s()|]+)')


class RenderError(Exception):
    """A template fails on purpose, or has something that this module does not know."""


class _Block(NamedTuple):
    kind: str
    expression: str
    body: list[Any]


def render(chart: Path, values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the manifests of a chart named `r`, with values over those of its values.yaml."""
    information = yaml.safe_load((chart / "Chart.yaml").read_text())
    root = {
        "Values": _merged(yaml.safe_load((chart / "values.yaml").read_text()), values),
        "Release": {"Name": "r", "Namespace": "default"},
        "Chart": {"AppVersion": information["appVersion"]},
        "Files": chart,
    }
    texts = {path.name: path.read_text() for path in sorted((chart / "templates").iterdir())}
    renderer = _Renderer(root)
    outputs = {name: renderer.render(_parse(text), root) for name, text in texts.items()}
    documents = [doc for name, out in outputs.items() if name.endswith(".yaml") for doc in yaml.safe_load_all(out)]
    return [document for document in documents if document]


def _merged(under: Any, over: Any) -> Any:
    if not isinstance(under, dict) or not isinstance(over, dict):
        return over
    return {**under, **{key: _merged(under.get(key), value) for key, value in over.items()}}


def _parse(text: str) -> list[Any]:
    """Return texts, actions and blocks in their order."""
    stack = [_Block("", "", [])]
    position, trim = 0, False
    for match in _ACTION.finditer(text):
        before = text[position : match.start()]
        before = before.lstrip() if trim else before
        stack[-1].body.append(before.rstrip() if match[1] else before)
        position, trim = match.end(), match[3] is not None
        word, _, rest = match[2].partition(" ")
        if word in ("if", "with", "range", "define"):
            stack.append(_Block(word, rest, []))
        elif word == "end":
            block = stack.pop()
            stack[-1].body.append(block)
        else:
            stack[-1].body.append(_Block("action", match[2], []))
    if len(stack) != 1:
        raise RenderError("a block has no end")
    stack[0].body.append(text[position:].lstrip() if trim else text[position:])
    return stack[0].body


class _Renderer:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._templates: dict[str, list[Any]] = {}
        self._functions: dict[str, Callable[..., Any]] = {
            "include": lambda name, dot: self.render(self._templates[name], dot),
            "toYaml": lambda value: yaml.safe_dump(value, default_flow_style=False).removesuffix("...\n").strip(),
            "nindent": lambda width, text: "\n" + re.sub("^(?=.)", " " * width, text, flags=re.MULTILINE),
            "quote": lambda value: '"' + str(value).replace('"', '\\"') + '"',
            "default": lambda fallback, value: value or fallback,
            "required": _required,
            "fail": _fail,
            "not": lambda value: not value,
            "printf": lambda form, *values: form.replace("%s", "{}").format(*values),
            "sha256sum": lambda text: hashlib.sha256(text.encode()).hexdigest(),
            "regexMatch": lambda pattern, text: re.search(pattern, text) is not None,
        }

    def render(self, nodes: list[Any], dot: Any) -> str:
        """Return the text of nodes with `.` as the value."""
        return "".join(self._node(node, dot) for node in nodes)

    def _node(self, node: Any, dot: Any) -> str:
        if isinstance(node, str):
            return node
        if node.kind == "define":
            self._templates[node.expression.strip('"')] = node.body
            return ""
        value = self._pipeline(node.expression, dot)
        if node.kind == "action":
            return str(value)
        if node.kind == "range":
            return "".join(self.render(node.body, item) for item in value)
        return self.render(node.body, value if node.kind == "with" else dot) if value else ""

    def _pipeline(self, text: str, dot: Any) -> Any:
        return self._commands(iter(_WORD.findall(text)), dot)

    def _commands(self, words: Iterator[str], dot: Any) -> Any:
        """Evaluate commands joined by `|`, up to a closing bracket or the end."""
        parts: list[Any] = []
        for word in words:
            if word == ")":
                break
            if word == "|":
                parts = [_Piped(self._call(parts))]
            elif word == "(":
                parts.append(self._commands(words, dot))
            else:
                parts.append(self._value(word, dot))
        return self._call(parts)

    def _call(self, parts: list[Any]) -> Any:
        piped = [part.value for part in parts if isinstance(part, _Piped)]
        function, *arguments = [part for part in parts if not isinstance(part, _Piped)]
        return function(*arguments, *piped) if callable(function) else function

    def _value(self, word: str, dot: Any) -> Any:
        if word.startswith('"'):
            return word[1:-1].replace('\\"', '"')
        if word.isdigit():
            return int(word)
        if word == ".Files.Get":
            return lambda name: (self._root["Files"] / name).read_text()
        if word.startswith("."):
            for name in filter(None, word.split(".")):
                dot = dot[name]
            return dot
        if word not in self._functions:
            raise RenderError(f"unknown function {word}")
        return self._functions[word]


class _Piped(NamedTuple):
    value: Any


def _required(text: str, value: Any) -> Any:
    return value or _fail(text)


def _fail(text: str) -> Any:
    raise RenderError(text)
