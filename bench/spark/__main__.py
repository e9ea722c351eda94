"""`python -m bench.spark`."""

from bench.spark.command import main

if __name__ == "__main__":
    main()
