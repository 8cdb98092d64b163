"""JSON API below `/api/v1`; errors are RFC 9457 problems. One file per subject."""
