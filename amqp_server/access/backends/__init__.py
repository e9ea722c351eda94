"""Back ends that know users beside the server's own: over HTTP, by tokens, or one's own in Python.

For a back end of one's own: `backend.Backend`, `backend.Identity` and `backend.Refusal`.
"""
