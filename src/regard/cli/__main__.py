"""`python -m regard.cli`, the same as `regard`."""

from regard.cli import run

if __name__ == "__main__":
    run()
