"""Speed, measured as ratios within one run: `make bench`; and comparisons of models with baselines."""
