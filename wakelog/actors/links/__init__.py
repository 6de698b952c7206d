"""How the services of one broker tell each other that there is something to do.

Read `links.py` for what the Broker asks and hears, then `by_reference.py`, which runs a whole
broker on calls with a result, then `by_bell.py`, which tells progress by words (`words.py`) and
bells (`bells.py`) on one node and calls the same methods for everything else. `pump.py` is
natural batching; `neighbour.py` keeps a neighbour attached; `station.py` is the other end.
"""
