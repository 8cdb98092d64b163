"""FTP on the file server: control connections, sessions, and the data connections that carry the images."""
