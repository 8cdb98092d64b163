"""Live state, once a second: read from journal and events, rendered once as tables of text, sent to all browsers."""
