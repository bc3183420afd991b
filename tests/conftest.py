"""What tests share: a steady hypothesis profile and a generator of randomness."""

import os

# nets in tests are tiny: threads would only wait for each other, here and in the processes that tests start
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import settings

examples = int(os.environ.get("STEPEDIT_EXAMPLES", "100"))  # of each property; many more, now and then, by hand
settings.register_profile("stepedit", deadline=None, print_blob=True, max_examples=examples)
settings.load_profile("stepedit")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20201116)
