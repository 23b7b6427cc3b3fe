"""The console: screens, widgets, keys, themes."""
