"""What to run: the recipe's schema, its arguments, lint and differences."""
