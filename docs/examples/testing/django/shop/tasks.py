"""Tasks of the site."""

from celery import shared_task
from django.core.mail import send_mail


@shared_task
def send_receipt(order, address):
    """Write to the customer."""
    send_mail(f"Order {order}", "Thank you.", "shop@example.com", [address])
