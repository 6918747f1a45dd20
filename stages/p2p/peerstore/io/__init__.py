"""The peerstore's file."""
