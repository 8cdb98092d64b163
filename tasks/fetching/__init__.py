"""By which protocols a device can fetch, and how fast at most, as far as that shows before anything is set."""
