"""The audit read, verified and exported. Entries are written by `flashferry.service.auditing`."""
