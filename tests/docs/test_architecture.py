"""The page of the architecture shows the rooms of the server as the import contract has them."""

import tomllib

from tests.docs.flow_lines import PAGE, REPOSITORY


def test_the_rooms_of_the_page_stand_as_in_the_import_contract() -> None:
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]
    (floors,) = [
        each["layers"]
        for each in contracts["contracts"]
        if each.get("containers") == ["amqp_server"] and each["type"] == "layers"
    ]
    package = REPOSITORY / "amqp_server"
    rooms = [
        room
        for floor in floors
        for room in floor.replace(":", "|").replace(" ", "").split("|")
        if (package / room).is_dir()
    ]
    table = PAGE.read_text().partition("| room | what is in it |")[2].partition("\n\n")[0]
    first_cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    shown = [word.strip("` /") for cell in first_cells for word in cell.split(",")]
    assert [room for room in shown if (package / room).is_dir()] == rooms
