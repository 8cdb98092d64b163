"""Published studies of bulk copies, run again: ciphers, MACs and compression of scp; dd through ssh and nc."""
