"""`python -m hfprep`."""

from .cli import main

main()
