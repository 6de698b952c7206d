"""The Broker's ends of its links, one line to each neighbour.

Read in this order: `by_reference`, which dispatches and wakes on calls with a result; `by_bell`,
which tells progress by words and bells and calls the same methods for everything else;
`flush_line`, `commit_line`, `segment_line`, `delay_line`, `retention_line`; `broker_links`, which
puts them together.
"""
