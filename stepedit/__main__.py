"""`python -m stepedit` is the same as `stepedit`."""

from stepedit.cli.main import main

main()
