from tests.appendlog.conftest import close_what_a_test_left_open

__all__ = ["close_what_a_test_left_open"]
