"""Starting ranks: as threads, as processes, on this host and on others."""
