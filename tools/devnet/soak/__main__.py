"""`python -m rollup_node.tools.devnet.soak`: the commands `tools/chaos soak` and `tools/chaos report`."""

import sys

from rollup_node.tools.devnet.soak.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
