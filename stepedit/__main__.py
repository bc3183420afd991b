"""`python -m stepedit` is `stepedit`."""

from stepedit.cli import main

main()
