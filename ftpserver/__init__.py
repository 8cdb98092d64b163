"""The tuned FTP server: it feeds routers and is the witness of every transfer."""
