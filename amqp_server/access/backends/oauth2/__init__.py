"""A back end for tokens (OAuth 2, OpenID Connect): JWTs whose scopes are permissions."""
