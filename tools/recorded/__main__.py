"""`python -m rollup_node.tools.recorded FOLDER`."""

import sys

from rollup_node.tools.recorded.server import main

sys.exit(main())
