"""Derives ranges of L1 into tables with the node's own stages; manifests prove what the tables contain."""
