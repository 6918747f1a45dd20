"""Writes docs/metrics.md from the tables of metrics.

python -m rollup_node.tools.importers.metric_docs
"""

from pathlib import Path

from rollup_node.tools.commands.doc import page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"


if __name__ == "__main__":
    PAGE.write_text(page())
