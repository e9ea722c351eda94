"""How files become part of an output, each once: manifests, and what is done after a crash."""
