"""The service for programs: `/api/v1`, JSON, errors as RFC 9457 problems. Each file is one subject."""
