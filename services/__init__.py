"""Independent services that talk only through facts. They never import each other."""
