"""Updates the generated sections of README.md: the channel diagram and the exit codes.

python -m rollup_node.tools.importers.readme
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from enum import IntEnum

from rollup_node.node.system.exit_codes import ExitCode
from rollup_node.tools.importers.architecture_docs import diagram
from rollup_node.tools.importers.generated_sections import ROOT, Sections, rewrite, table

README = ROOT / "README.md"


def exit_codes() -> str:
    """Return a row per exit code with its meaning."""
    return table(("Exit code", "Meaning"), [(str(member.value), text) for member, text in members_with_texts(ExitCode)])


def members_with_texts(enum: type[IntEnum]) -> Iterator[tuple[IntEnum, str]]:
    """Yield the members of an enum with the string literals that follow them in the source."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(enum))).body
    assert isinstance(definition, ast.ClassDef)
    for statement, following in zip(definition.body, definition.body[1:], strict=False):
        match statement, following:
            case ast.Assign(targets=[ast.Name(id=name)]), ast.Expr(value=ast.Constant(value=str(text))):
                yield enum[name], text


SECTIONS: Sections = {"channels": diagram, "exit codes": exit_codes}


if __name__ == "__main__":
    rewrite(README, SECTIONS)
