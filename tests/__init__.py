"""Tests of nightdeck: they mirror the house, plus the eight-host bed and the benches."""
