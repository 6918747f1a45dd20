"""`python -m rollup_node.tools.devnet.l1`."""

import sys

from rollup_node.tools.devnet.l1.server import main

sys.exit(main())
