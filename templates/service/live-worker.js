// Filled in with the live state; pages do without it.
