"""Units, images and manifests of `deploy/`, and what a service manager learns of the server."""
