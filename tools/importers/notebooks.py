"""Runs the notebooks of docs/notebooks, and writes what their cells print and draw into them.

python -m rollup_node.tools.importers.notebooks RECORDING

The argument is the folder of the recorded OP Sepolia data.
"""

import argparse
import ast
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import orjson

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
RECORDING = "ROLLUP_NODE_RECORDING"

Json = dict[str, Any]


def main(arguments: list[str] | None = None) -> int:
    """Run all notebooks, and write them."""
    parser = argparse.ArgumentParser(description="Runs the notebooks of the documents.", allow_abbrev=False)
    parser.add_argument("recording", type=Path, help="the folder of the recorded OP Sepolia data")
    recording = parser.parse_args(arguments).recording
    for path in notebooks():
        path.write_text(text_of(executed(orjson.loads(path.read_bytes()), recording)))
    return 0


def notebooks() -> list[Path]:
    """Return the files of the notebooks."""
    return sorted(FOLDER.glob("*.ipynb"))


def text_of(notebook: Json) -> str:
    """Return the text of a notebook's file."""
    return orjson.dumps(notebook, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()


def executed(notebook: Json, recording: Path) -> Json:
    """Return a notebook with the outputs of its cells, run one after the other. Raises what a cell raises."""
    names: Json = {"__name__": "__main__"}
    cells = []
    with _settings(recording):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                outputs = list(_outputs("".join(cell["source"]), names))
                cell = {**cell, "execution_count": None, "outputs": outputs}
            cells.append(cell)
    return {**notebook, "cells": cells}


@contextmanager
def _settings(recording: Path) -> Iterator[None]:
    """Have figures drawn without a screen, as the same SVG each time, and cells read this recording."""
    import matplotlib

    before = os.environ.get(RECORDING)
    os.environ[RECORDING] = str(recording)
    matplotlib.use("Agg")
    try:
        with matplotlib.rc_context({"svg.hashsalt": "notebook", "svg.fonttype": "none"}):
            yield
    finally:
        os.environ.pop(RECORDING)
        if before is not None:
            os.environ[RECORDING] = before


def _outputs(source: str, names: Json) -> Iterator[Json]:
    """Run a cell; yield what it prints and the figures that it draws."""
    import matplotlib.pyplot as plt

    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(ast.parse(source), "<cell>", "exec"), names)
    if printed.getvalue():
        yield {"output_type": "stream", "name": "stdout", "text": printed.getvalue().splitlines(keepends=True)}
    for number in plt.get_fignums():
        drawn = io.StringIO()
        plt.figure(number).savefig(drawn, format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight")
        data = {"image/svg+xml": drawn.getvalue().splitlines(keepends=True)}
        yield {"output_type": "display_data", "metadata": {}, "data": data}
    plt.close("all")


if __name__ == "__main__":
    sys.exit(main())
