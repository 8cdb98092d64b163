"""What a run came to, as a report: one typed model, derived from the journal alone, and its forms."""
