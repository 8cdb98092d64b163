"""Share a plan out to sites, send signed orders, and keep a ledger of the agents' reports."""
