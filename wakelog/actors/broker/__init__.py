"""The Broker's shell: `service.py` ties store, core, server and links together; `actor.py` is its
Ray actor. The other modules are what the service keeps for the core: answers that wait for the
disk, work that waits for a thread, tables on their way to their files, name servers to be told.
"""
