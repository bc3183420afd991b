"""Shared by all tests: one thread, signals as at a terminal, a fixed hypothesis profile and a seeded generator."""

import os
import signal

# networks in tests are tiny, so threads only add overhead, here and in the processes that tests start
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell; commands inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

examples = int(os.environ.get("STEPEDIT_EXAMPLES", "100"))  # of each property; set it higher for a thorough run
settings.register_profile("stepedit", deadline=None, print_blob=True, max_examples=examples)
settings.load_profile("stepedit")


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a generator with a fixed seed."""
    return np.random.default_rng(20201116)
