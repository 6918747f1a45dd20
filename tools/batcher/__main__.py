"""`python -m rollup_node.tools.batcher`."""

import sys

from rollup_node.tools.batcher.process import main

sys.exit(main())
