"""Identity, key-value stores, rendezvous, failure detection and agreement."""
