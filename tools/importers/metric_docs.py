"""Writes docs/metrics.md from the tables of metrics.

python -m rollup_node.tools.importers.metric_docs [--out FILE]
"""

import argparse
import sys
from pathlib import Path

from rollup_node.tools.commands.doc import page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"


def main(arguments: list[str] | None = None) -> int:
    """Return the command: writes the page."""
    parser = argparse.ArgumentParser(description="Writes docs/metrics.md from the tables.", allow_abbrev=False)
    parser.add_argument("--out", type=Path, default=PAGE)
    parser.parse_args(arguments).out.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
