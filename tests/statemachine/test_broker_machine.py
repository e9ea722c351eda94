"""Random clients against a real server, and a model that says what each of them must see."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize

from tests.statemachine.clients import Mode
from tests.statemachine.consuming_rules import ConsumingRules
from tests.statemachine.declaration_rules import DeclarationRules
from tests.statemachine.machine import MODES
from tests.statemachine.overlapping_rules import OverlappingRules
from tests.statemachine.restart_rules import RestartRules
from tests.statemachine.servers import Servers
from tests.statemachine.shapes import SHAPES
from tests.statemachine.transaction_rules import TransactionRules
from tests.statemachine.world import World

IS_LONG: Final = os.environ.get("HYPOTHESIS_PROFILE") == "long"
EXAMPLES: Final = settings().max_examples * 2 // 5 if IS_LONG else 60
CUT_EXAMPLES: Final = settings().max_examples // 5 if IS_LONG else 40
WHOLE: Final = Servers()
CUT: Final = Servers("tests.cutting")


@pytest.fixture(autouse=True)
def _servers() -> Iterator[None]:
    yield
    WHOLE.close()
    CUT.close()


class BrokerMachine(
    OverlappingRules, DeclarationRules, TransactionRules, ConsumingRules, RestartRules
):
    """Every rule does one thing, tells the model, and waits until both agree.

    Attributes:
        servers: What it runs against.
    """

    servers = WHOLE
    # A rule that has several names is chosen so much more often.
    answer_2 = answer_3 = answer_4 = ConsumingRules.answer
    get_2 = get_3 = ConsumingRules.get
    consume_2 = ConsumingRules.consume

    @initialize(
        modes=st.lists(st.sampled_from(MODES), min_size=2, max_size=2),
        names=st.sets(st.sampled_from(sorted(SHAPES)), min_size=2, max_size=6),
    )
    def start(self, modes: list[Mode], names: set[str]) -> None:
        server, prefix = self.servers.get()
        self.world = World(server, prefix)
        self.model, self.clients = self.world.model, self.world.clients
        for mode in modes:
            self.connect(mode)
        for name in sorted(names):
            self.declare(name, 0)

    def teardown(self) -> None:
        failed = sys.exc_info()[0] is not None
        if hasattr(self, "world"):
            try:
                if not failed:
                    self.world.remove()
            finally:
                self.world.close()
                self.servers.end_run(failed=failed)


class CutBrokerMachine(BrokerMachine):
    """The same against a server whose time slices are over after one step.

    So every operation is cut at every place, and the requests of others are handled in between.
    """

    servers = CUT
    end_beside_others_2 = end_beside_others_3 = OverlappingRules.end_beside_others


TestBroker = pytest.mark.timeout(0 if IS_LONG else 300)(BrokerMachine.TestCase)
TestBroker.settings = settings(max_examples=EXAMPLES, stateful_step_count=40)

TestCutBroker = pytest.mark.timeout(0 if IS_LONG else 300)(CutBrokerMachine.TestCase)
TestCutBroker.settings = settings(max_examples=CUT_EXAMPLES, stateful_step_count=40)
