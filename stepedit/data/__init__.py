"""Pairs on disk and the training states made from them."""
