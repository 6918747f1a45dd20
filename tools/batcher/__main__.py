"""`python -m rollup_node.tools.batcher`."""

import sys

from rollup_node.tools.batcher.driver import main

sys.exit(main())
