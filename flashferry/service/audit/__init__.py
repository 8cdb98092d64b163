"""Read, verify and export the audit. `Service.note` writes entries."""
