"""`python -m regard`: the command, where a program must be named by its module, as under torchrun."""

from regard.cli import run

run()
