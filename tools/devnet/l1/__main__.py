"""`python -m rollup_node.tools.devnet.l1`: the embedded L1 as a program."""

import sys

from rollup_node.tools.devnet.l1.server import main

sys.exit(main())
