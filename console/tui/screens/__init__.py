"""Screens: the main one, and the modal ones that ask or show."""
