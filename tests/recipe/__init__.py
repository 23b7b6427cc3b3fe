"""Tests of the recipe room."""
