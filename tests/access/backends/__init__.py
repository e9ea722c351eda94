"""Tests of back ends that know users beside the server's own."""
