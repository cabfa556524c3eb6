"""``python -m volsched`` is the command line."""

from volsched.cli import main

main()
