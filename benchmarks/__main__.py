"""Run every benchmark: `make bench`."""

from benchmarks import ground

for part in (ground,):
    part.run()
