"""`python -m bench`."""

# Worker processes import this file again: an import at the top would slow their start.
if __name__ == "__main__":
    from bench.command import main

    main()
