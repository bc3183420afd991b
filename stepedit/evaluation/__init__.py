"""How good predictions are: metrics, scores of a run, the confidence threshold, the paper's figures."""
