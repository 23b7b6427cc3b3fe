"""Where to run: the cluster file's schema and the facts that a node reports about itself."""
