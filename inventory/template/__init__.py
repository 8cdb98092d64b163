"""An inventory to copy and fill in with your own routers."""
