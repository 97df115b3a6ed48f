"""`python -m specdec_cli` is `specdec`."""

from specdec_cli.cli import main

if __name__ == "__main__":
    main()
