"""What the containers of docker-compose.yml run that are no service: NATS, Postgres, the bootstrap job."""
