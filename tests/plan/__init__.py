"""Tests of the plan: rendering, lint, memory budget, preflight."""
