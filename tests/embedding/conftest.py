from tests.appendlog.conftest import close_what_a_test_left_open
from tests.cli.conftest import clean_environment

__all__ = ["clean_environment", "close_what_a_test_left_open"]
