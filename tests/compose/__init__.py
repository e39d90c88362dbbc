"""docker-compose.yml on a real engine: `make compose-test`. Not part of `make test`, which judges the file only."""
