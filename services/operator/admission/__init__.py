"""The operator's part of a host's life: its admission to the clusters, and its end there."""
