"""`python -m bench`."""

# The import stays inside: the worker processes import this file again, and must start light.
if __name__ == "__main__":
    from bench.command import main

    main()
