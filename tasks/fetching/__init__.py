"""By which protocols a device can fetch, and how fast at most: what a check and a plan tell before anything is set."""
