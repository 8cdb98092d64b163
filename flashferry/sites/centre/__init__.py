"""The centre: plans shared out to sites, signed orders, and a ledger of their reports."""
