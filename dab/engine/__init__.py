"""The loop and everything around it: configuration, runs, checkpoints, devices, records, loggers."""
