"""The only page of the site."""

from django.http import HttpResponse
from django.urls import path
from django.views.decorators.http import require_POST

from shop.tasks import send_receipt


@require_POST
def place_order(request, order):
    """Take an order; its receipt is sent by a worker."""
    send_receipt.delay(order, request.POST["address"])
    return HttpResponse(status=202)


urlpatterns = [path("orders/<int:order>", place_order)]
