"""`python -m farm` is `farm`."""

from farm.cli.main import main

if __name__ == "__main__":
    main()
