"""`python -m tests.frozen`: write the files of `seen/` again."""

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.frozen.seen import KEPT, texts

if __name__ == "__main__":
    KEPT.mkdir(exist_ok=True)
    with TemporaryDirectory() as place:
        for name, text in texts(Path(place)).items():
            (KEPT / name).write_text(text.rstrip("\n") + "\n")
