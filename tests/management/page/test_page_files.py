"""The files of the page, without a browser: all are there, sound, and ask no other host."""

import html.parser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "amqp_server" / "management" / "page"
OWN = sorted(
    path
    for path in PAGE.rglob("*")
    if path.suffix in (".js", ".css", ".html", ".svg") and "vendor" not in path.parts
)
MODULES = [path for path in OWN if path.suffix == ".js" and path.parent != PAGE]
IMPORT = re.compile(r"""(?:import|export)\s+(?:([\w*{}\s,$]+?)\s+from\s+)?["']([^"']+)["'];""")
LAZY_IMPORT = re.compile(r"""import\(\s*["']([^"']+)["']\s*\)""")
EXPORT = re.compile(r"export\s+(?:async\s+)?(?:function\*?|const|let|class)\s+(\w+)")
EXPORT_LIST = re.compile(r"export\s*\{([^}]*)\}")


def shown(path: Path) -> str:
    return str(path.relative_to(PAGE))


def exports(path: Path) -> set[str]:
    """Names that a module exports."""
    text = path.read_text()
    names = set(EXPORT.findall(text))
    for group in EXPORT_LIST.findall(text):
        names |= {part.split(" as ")[-1].strip() for part in group.split(",") if part.strip()}
    if re.search(r"export\s+default", text):
        names.add("default")
    return names


def imports(path: Path) -> list[tuple[str, set[str]]]:
    """Which names a module imports from where; a module that is fetched later has its default."""
    found = []
    text = path.read_text()
    for clause, source in IMPORT.findall(text):
        names = set()
        braces = re.search(r"\{([^}]*)\}", clause)
        if braces:
            names |= {
                part.split(" as ")[0].strip() for part in braces[1].split(",") if part.strip()
            }
        if re.match(r"\w+", clause):
            names.add("default")
        found.append((source, names))
    found += [(source, {"default"}) for source in LAZY_IMPORT.findall(text)]
    return found


class Resources(html.parser.HTMLParser):
    """What a document loads, and what it has inline."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.inline: list[str] = []
        self._open = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        address = values.get("src") if tag in ("script", "img") else None
        if tag == "link":
            address = values.get("href")
        if address:
            self.loaded.append(address)
        self._open = tag if tag in ("script", "style") and not address else ""
        self.inline += [f"{tag} {name}" for name in values if name == "style" or name[:2] == "on"]

    def handle_data(self, data: str) -> None:
        if self._open and data.strip():
            self.inline.append(self._open)


def test_index_loads_files_that_exist_and_has_nothing_inline() -> None:
    document = Resources()
    document.feed((PAGE / "index.html").read_text())

    assert "app/main.js" in document.loaded
    assert [path for path in document.loaded if not (PAGE / path).is_file()] == []
    assert document.inline == []


@pytest.mark.parametrize("path", MODULES, ids=shown)
def test_every_import_finds_its_names(path: Path) -> None:
    for source, names in imports(path):
        target = (path.parent / source).resolve()
        assert source.startswith("."), f"{shown(path)} imports {source}"
        assert target.is_file(), f"{shown(path)} imports {source}"
        assert names <= exports(target), f"{shown(path)} imports {names} from {source}"


@pytest.mark.parametrize("path", OWN, ids=shown)
def test_no_file_names_another_host(path: Path) -> None:
    text = path.read_text().replace("http://www.w3.org/2000/svg", "")

    assert re.findall(r"""https?://[^"'`\s]*|["'(]//\w[^"'`\s]*""", text) == []


@pytest.mark.parametrize("path", MODULES, ids=shown)
def test_no_module_writes_html_or_runs_text(path: Path) -> None:
    text = path.read_text()

    assert re.findall(r"\b(?:inner|outer)HTML|insertAdjacentHTML|document\.write\b", text) == []
    assert re.findall(r"dangerouslySetInnerHTML|\beval\(|new Function|srcdoc", text) == []
    # An attribute `style` would be refused by the policy: an object sets properties instead.
    assert re.findall(r"""\sstyle="[^$]""", text) == []


def test_every_file_of_the_style_is_loaded_and_its_fonts_are_there() -> None:
    index = (PAGE / "index.html").read_text()
    for path in (PAGE / "style").iterdir():
        assert f"style/{path.name}" in index
        for address in re.findall(r"url\(\"([^\"]+)\"\)", path.read_text()):
            assert (path.parent / address).is_file(), address


def test_every_class_of_a_template_has_a_style() -> None:
    styles = "\n".join(path.read_text() for path in (PAGE / "style").iterdir())
    known = set(re.findall(r"\.([a-z][\w-]*)", styles))
    used = set()
    for path in MODULES:
        for names in re.findall(r'\sclass="([^"$]+)"', path.read_text()):
            used |= set(names.split())
    assert used - known <= UNSTYLED


# Names for the tests and for reading; a class of its own looks like what is around it.
UNSTYLED = {"account", "titles", "attention", "item", "label", "u-legend", "count", "kind", "text"}


def test_every_vendored_file_has_its_licence_and_version() -> None:
    table = (PAGE / "vendor" / "README.md").read_text()
    names = {path.name for path in (PAGE / "vendor").iterdir()} - {"README.md"}

    assert {name for name in names if f"`{name}`" not in table} == set()
    assert set(re.findall(r"`(LICENSE\.[\w-]+)`", table)) <= names


def test_pure_functions_do_what_they_say(tmp_path: Path) -> None:
    # Node.js takes files that end in .js for modules where a package says so.
    shutil.copytree(PAGE, tmp_path / "page")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    tests = Path(__file__).with_name("pure_functions.test.mjs")
    done = subprocess.run(
        ["node", "--test", str(tests)],
        env={"PAGE_URL": (tmp_path / "page").as_uri(), "PATH": "/usr/local/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    assert re.search(r"# pass [1-9]\d", done.stdout), done.stdout[-500:]


CHECK = """
import { readFileSync } from "node:fs";
import { SourceTextModule } from "node:vm";
for (const path of process.argv.slice(1)) {
  try {
    new SourceTextModule(readFileSync(path, "utf8"), { identifier: path });
  } catch (error) {
    console.log(path, error.message);
  }
}
"""


def test_every_module_is_valid() -> None:
    paths = [str(path) for path in MODULES]
    done = subprocess.run(
        ["node", "--experimental-vm-modules", "--input-type=module", "-e", CHECK, *paths],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    "view", ["queues", "connections", "channels", "audit", "policies", "shovels", "transfers"]
)
def test_every_column_of_a_wide_list_has_a_width(view: str) -> None:
    # Without one the table is as wide as its texts, and is cut at 1366 pixels.
    text = (PAGE / "views" / f"{view}.js").read_text()
    columns = [line for line in text.splitlines() if re.match(r" +\{ key: \"\w+\", ", line)]

    assert len(columns) >= 7
    assert [line for line in columns if "width: " not in line and "isMain" not in line] == []


def test_what_every_machine_has_is_shown_before_rabbitmqadmin() -> None:
    text = (PAGE / "parts" / "copying.js").read_text()

    assert 'useState(command && !(isAdmin && request) ? "command" : "curl")' in text
