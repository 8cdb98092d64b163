"""Live state, once a second: read from journal and events, made into tables of text once, sent to all browsers."""
