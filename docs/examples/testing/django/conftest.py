"""Django and Celery, with the broker of the test."""

import django
import pytest
from django.test import Client
from django.test.utils import setup_test_environment, teardown_test_environment
from shop.celery import app

django.setup()


@pytest.fixture
def celery_app(amqp_celery_app):
    """`celery_worker` starts a worker of the application that this fixture returns."""
    return amqp_celery_app(app)


@pytest.fixture(scope="session")
def celery_worker_parameters():
    """Celery would ask each new worker for an answer, and look for it half a second later."""
    return {"perform_ping_check": False}


@pytest.fixture
def client():
    """pytest-django has this fixture too, with the settings of the site for tests."""
    setup_test_environment()
    yield Client()
    teardown_test_environment()
