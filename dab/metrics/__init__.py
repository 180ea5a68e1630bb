"""Per-sample measures: every function returns one value per sample, [B]."""
