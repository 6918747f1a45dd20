"""Peer manager, score service and discovery service."""
