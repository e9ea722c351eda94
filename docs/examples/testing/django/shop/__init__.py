"""A site that takes orders."""

from shop.celery import app as celery_app

__all__ = ["celery_app"]
