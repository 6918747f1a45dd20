"""`python -m rollup_node.node` is the command `rollup-node`."""

import sys

from rollup_node.node.cli import main

sys.exit(main())
