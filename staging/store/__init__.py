"""What runs leave behind, to be read again: stored runs, transfers, speeds over time, and how a run is steered."""
