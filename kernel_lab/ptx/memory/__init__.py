"""The state spaces, with a shadow that knows who wrote what when."""
