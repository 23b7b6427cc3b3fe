"""Disk: settings, places, recipe, cluster and theme files, the journal of boots."""
