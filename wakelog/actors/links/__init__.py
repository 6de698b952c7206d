"""How the services of one broker tell each other that there is something to do: what both ends use.

Read in this order: `links` (what the Broker asks and hears), `words` and `bells` (how progress is
told on one node), `pump` (natural batching), `neighbour` (keeps a neighbour attached), `station` (a
service's end), `descriptors`, `service_plan` (what a service is started with). The Broker's ends
are in `wakelog.actors.lines`.
"""
