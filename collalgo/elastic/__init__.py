"""Jobs whose members come and go: rounds of a rendezvous, over a key-value store."""
