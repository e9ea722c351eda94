"""Why a change of policies was refused."""

from __future__ import annotations


class PolicyError(Exception):
    """A change of policies was refused; nothing was changed."""


class InvalidPolicyError(PolicyError):
    """A policy is not valid.

    Attributes:
        fault: What is wrong with it, in RabbitMQ's words.
    """

    def __init__(self, fault: str) -> None:
        super().__init__(f"Validation failed\n\n{fault}\n")
        self.fault = fault


class NoSuchPolicyError(PolicyError):
    """The virtual host has no policy of this kind and name."""


class NoSuchPolicyVhostError(PolicyError):
    """There is no virtual host with this name."""


class TooManyPoliciesError(PolicyError):
    """The virtual host has as many policies as allowed."""
