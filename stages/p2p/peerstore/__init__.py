"""The peerstore: what the node keeps about peers between connections and across restarts."""
