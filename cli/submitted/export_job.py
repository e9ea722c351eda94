"""What `spark-submit` runs: an export, with the options that follow the program's name.

In a folder of its own, because Python puts the folder of a program in front of all others,
and what is in `cli` would hide modules of the standard library there.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Behind all others: where this lies, if it is not installed.
    sys.path.append(str(Path(__file__).resolve().parents[2]))
    from cli.entry import main

    sys.argv[1:1] = ["export"]
    sys.exit(main())
