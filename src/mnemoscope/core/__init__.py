"""What everything stands on: configs, errors, names, seeds, files, progress. Imports no torch."""
