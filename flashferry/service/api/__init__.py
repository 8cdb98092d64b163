"""The service for programs: `/api/v1`, JSON, errors as RFC 9457 problems with our hints. Each file is one subject."""
