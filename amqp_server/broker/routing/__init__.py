"""Where a message goes: envelopes, matchers, exchange-to-exchange bindings."""
