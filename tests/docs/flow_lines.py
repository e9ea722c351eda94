"""Lines of the flows in docs/architecture.md: read, compared with the calls of a run, written."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

REPOSITORY: Final = Path(__file__).resolve().parents[2]
PAGE: Final = REPOSITORY / "docs" / "architecture.md"
EVENT_LOOP: Final = "event loop"
"""What the page calls the thread of a line that names none."""
_WORDS_AT: Final = 68
"""Column in which the words of a line begin."""
_BLOCK: Final = re.compile(r"^```flow-(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINE: Final = re.compile(
    r"(?P<file>[\w/]+\.py): (?P<function>[\w.]+)(?: +\[(?P<thread>[^]]+)\])?(?: +(?P<words>\S.*))?"
)


class Call(NamedTuple):
    """The first call of a function in a flow.

    Attributes:
        file: Path below `amqp_server/`, or below the repository for the libraries.
        function: Name of the function, with that of its class.
        thread: Name of the thread without its number.
    """

    file: str
    function: str
    thread: str

    @property
    def name(self) -> str:
        """How the page names the function."""
        return f"{self.file}: {self.function}"


class Step(NamedTuple):
    """A line of a flow on the page.

    Attributes:
        call: What it says is called.
        words: What it says of it.
    """

    call: Call
    words: str


class FlowSyntaxError(ValueError):
    """A line of a flow cannot be read."""


def flows_of(text: str) -> dict[str, list[Step]]:
    """Return the steps of each flow of a page, in the page's order.

    Raises:
        FlowSyntaxError: A line cannot be read.
    """
    return {name: list(_steps(block)) for name, block in _BLOCK.findall(text)}


def _steps(block: str) -> Iterator[Step]:
    for line in block.splitlines():
        found = _LINE.fullmatch(line)
        if found is None:
            raise FlowSyntaxError(
                f"{line!r}: a line of a flow is `room/file.py: function  [thread] words`"
            )
        call = Call(found["file"], found["function"], found["thread"] or EVENT_LOOP)
        yield Step(call, found["words"] or "")


def mistakes(steps: Iterable[Step], calls: Sequence[Call]) -> list[str]:
    """Return what is wrong with a flow of the page; empty if it is as the run was.

    Args:
        steps: The flow on the page.
        calls: First calls of the run, in order.
    """
    places: dict[str, int] = {}
    for at, call in enumerate(calls):
        # Two functions may share a name, such as a property and its setter.
        places.setdefault(call.name, at)
    found = []
    last_at, last_name = -1, ""
    for call, _ in steps:
        if call.name not in places:
            found.append(f"{call.name} is not called{_hint(call, calls)}")
            continue
        at = places[call.name]
        if (thread := calls[at].thread) != call.thread:
            found.append(f"{call.name} runs on {thread}, not on {call.thread}")
        if at <= last_at:
            found.append(f"{call.name} is called before {last_name}, not after it")
        else:
            last_at, last_name = at, call.name
    return found


def _hint(missing: Call, calls: Iterable[Call]) -> str:
    """Return where a function may be now; empty if no function has its last name."""
    names = [call.name for call in _namesakes(missing, calls)]
    return f"; there is {', '.join(names)}" if names else ""


def _namesakes(missing: Call, calls: Iterable[Call]) -> list[Call]:
    """Return the calls of functions with the same name in another class or file."""
    last = missing.function.rpartition(".")[2]
    return [call for call in calls if call.function.rpartition(".")[2] == last]


def updated(text: str, flows: Mapping[str, Sequence[Call]]) -> tuple[str, list[str]]:
    """Return a page whose flows are as those of a run, and the lines that had to go.

    Functions that are in another class or file now are found if just one function of the flow has
    their name.
    """
    gone: list[str] = []

    def replace(block: re.Match[str]) -> str:
        calls = flows.get(block[1], ())
        steps = []
        for step in _steps(block[2]):
            if (call := _now(step.call, calls)) is None:
                gone.append(f"{block[1]}: {step.call.name} {step.words}".rstrip())
            else:
                steps.append(Step(call, step.words))
        steps.sort(key=lambda step: calls.index(step.call))
        return "\n".join([f"```flow-{block[1]}", *map(_line, steps), "```"])

    return _BLOCK.sub(replace, text), gone


def _now(call: Call, calls: Sequence[Call]) -> Call | None:
    if same := [each for each in calls if each.name == call.name]:
        return same[0]
    namesakes = _namesakes(call, calls)
    return namesakes[0] if len(namesakes) == 1 else None


def _line(step: Step) -> str:
    thread = "" if step.call.thread == EVENT_LOOP else f"[{step.call.thread}]"
    words = " ".join(filter(None, (thread, step.words)))
    return f"{step.call.name:{_WORDS_AT - 1}} {words}".rstrip()
