"""History: ranges of L1 derived by the node's own stages into tables, with manifests that prove what is there."""
