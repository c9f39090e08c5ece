"""How fast Barnabas is on this machine, beside the machine's own limits: `barnabas bench`."""
