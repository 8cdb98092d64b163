"""A worked fleet of three sites and two models: sites as groups, windows, image rules. To read and to copy from."""
