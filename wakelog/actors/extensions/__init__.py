"""What others add to a broker, found by entry point, so that none of it can hold the broker.

Dispatchers run in threads beside Reput's core (`plugin_threads.py`), services as actors
(`added_services.py`).
"""
