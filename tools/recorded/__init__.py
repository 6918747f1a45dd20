"""Recorded L1 data served over HTTP as an L1 node and a Beacon API, so that the node can be run on real blocks."""
