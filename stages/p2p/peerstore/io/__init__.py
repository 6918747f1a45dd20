"""What is kept on disk: the peerstore and the network key."""
