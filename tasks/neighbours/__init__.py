"""Steps between devices of a site: one serves a proven file, another fetches it from there."""
