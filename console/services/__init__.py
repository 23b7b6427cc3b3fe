"""What the product does: watch, launch, follow, stop. The faces see `hub` alone."""
