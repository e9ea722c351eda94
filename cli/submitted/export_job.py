"""Program that `spark-submit` runs: an export, with the options after the program's name.

In a folder of its own, because Python puts the folder of a program first on the import path, where
modules of `cli` would hide modules of the standard library.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # At the end of the path: the source tree, for code that is not installed.
    sys.path.append(str(Path(__file__).resolve().parents[2]))
    from cli.entry import main

    sys.argv[1:1] = ["export"]
    sys.exit(main())
