"""Who and where a peer is: peer ids, multiaddrs, what identify says, and what is kept of a peer."""
