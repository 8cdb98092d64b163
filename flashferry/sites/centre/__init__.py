"""The centre: plans shared out to sites, signed orders, and a ledger of what was heard of them."""
