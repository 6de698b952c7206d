"""From flags, `--set` and broker.conf to a `Plan`: `planning`, then what it stands on."""
