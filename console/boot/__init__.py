"""Events, and what they add up to: (BootState, Event) -> BootState."""
