"""The service for people: pages that work without a script. Each file is one subject."""
