"""What the device's clients print, as data: a file per client, each text with its source or as a guess."""
