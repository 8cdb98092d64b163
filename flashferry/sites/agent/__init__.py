"""The agent at a site: takes orders, has them carried out by processes of their own, and reports the results."""
