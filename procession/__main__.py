"""`python -m procession` is the command `procession`."""

from procession.app.cli import main

main()
