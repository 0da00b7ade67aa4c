"""``python -m cutline.cli``."""

from cutline.cli import main

main()
