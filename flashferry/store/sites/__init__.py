"""What sites and their centre keep beside a journal: the centre's ledger of parts and words, an agent's of orders."""
