"""Celery's fixtures, with the application of this shop and the broker of the test."""

import pytest
import services
import shop


@pytest.fixture
def celery_app(amqp_celery_app):
    """`celery_worker` starts a worker of the application that this fixture returns."""
    return amqp_celery_app(shop.app)


@pytest.fixture(scope="session")
def celery_worker_parameters():
    """Celery would ask each new worker for an answer, and look for it half a second later."""
    return {"perform_ping_check": False}


class Service:
    """Stands where the shop reaches over the network; a test lets it fail for a time."""

    def __init__(self):
        self.calls = []
        self.is_down = False

    def __call__(self, order):
        self.calls.append(order)
        if self.is_down:
            raise services.NotNowError


@pytest.fixture
def bank(monkeypatch):
    monkeypatch.setattr(services, "charge_card", service := Service())
    return service


@pytest.fixture
def courier(monkeypatch):
    monkeypatch.setattr(services, "book_courier", service := Service())
    return service


@pytest.fixture
def mail(monkeypatch):
    monkeypatch.setattr(services, "send_mail", service := Service())
    return service
