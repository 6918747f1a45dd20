"""The peerstore: what is kept of peers between connections and restarts."""
