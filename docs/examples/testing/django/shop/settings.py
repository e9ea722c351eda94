"""Settings of the site."""

SECRET_KEY = "only for this example"
ALLOWED_HOSTS = ["localhost", "testserver"]
ROOT_URLCONF = "shop.urls"
USE_TZ = True
CELERY_BROKER_URL = "amqp://guest:guest@localhost/"
CELERY_TASK_DEFAULT_QUEUE = "shop"
