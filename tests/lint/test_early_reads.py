"""The rule finds what a wait makes stale, and nothing else."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.lint.early_reads import early_reads


def found(lines: str) -> list[str]:
    body = dedent(lines).strip().replace("\n", "\n    ")
    return [read.attribute for read in early_reads(f"async def f(self, x, batch):\n    {body}\n")]


@pytest.mark.parametrize(
    ("line", "attribute"),
    [
        ("self._waiting.append(await self._record(x))", "self._waiting"),
        ("self._waiting.append(Waiting(x, *await self._record(x), x.done))", "self._waiting"),
        ("self._waiting[0].add((yield from x.steps()))", "self._waiting[0]"),
        ("self.count += await x.more()", "self.count"),
        ("self.counts[x] += yield", "self.counts[x]"),
        ("x = self.count + await x.more()", "self.count"),
        ("x = (self.batch, await x.more())", "self.batch"),
        ("x = {'batch': self.batch, 'more': await x.more()}", "self.batch"),
        ("x.put(self.batch, await x.more())", "self.batch"),
        ("x.put(*self.batch, more=await x.more())", "self.batch"),
        ("return self.low < await x.more()", "self.low"),
    ],
)
def test_an_attribute_that_is_read_before_a_wait_is_found(line: str, attribute: str) -> None:
    assert found(line) == [attribute]


@pytest.mark.parametrize(
    "line",
    [
        "more = await x.more()\nself._waiting.append(more)",
        "batch.append(await x.more())",
        "self._put(await x.more())",
        "x = min(await x.more(), self.end)",
        "self.counts[x] = await x.more()",
        "x.put(HTTPStatus.OK, await x.more())",
        "self._waiting.append(lambda: (yield))",
        "x.put(self.taken(), await x.more())",
        "self.count += await x.more()  # read early: this task alone counts",
    ],
)
def test_what_stays_right_is_allowed(line: str) -> None:
    assert found(line) == []
