"""The service for people: pages that work without a script, each with a `.json` twin. Each file is one subject."""
