"""Starting ranks: as threads, as processes of a function, as processes of a script."""
