"""The service's configuration, `service.toml`: reader, checks and template."""
