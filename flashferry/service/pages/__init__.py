"""HTML pages of the service, which work without a script. One file per subject."""
