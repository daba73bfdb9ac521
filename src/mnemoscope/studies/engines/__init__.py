"""Where the trials of a study are computed: here, on a cluster, or by whoever shares the folder."""
