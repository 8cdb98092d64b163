"""WAN profiles as data; `lab.link.load_profile` reads them."""
