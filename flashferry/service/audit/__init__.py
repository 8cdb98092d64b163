"""Read, verify and export the audit. `flashferry.service.auditing` writes entries."""
