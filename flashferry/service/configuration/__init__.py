"""The service's configuration, `service.toml`: read and checked key by key, and a template."""
