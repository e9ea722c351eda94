"""`python -m bench.storage`."""

from bench.storage.command import main

if __name__ == "__main__":
    main()
