"""What a server must hold before the first service starts: streams, buckets, permissions, schema, roles."""
