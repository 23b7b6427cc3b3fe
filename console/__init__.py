"""nightdeck: a terminal console for one large model across several machines."""

__version__ = "0.1.0"
