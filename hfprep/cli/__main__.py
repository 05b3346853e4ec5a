"""`python -m hfprep.cli`."""

from . import main

main()
