"""WAN profiles as data; `flashferry.lab.link.load_profile` reads them."""
