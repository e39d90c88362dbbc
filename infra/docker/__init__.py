"""Images and what builds them."""
