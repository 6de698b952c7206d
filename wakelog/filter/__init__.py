"""The SQL92 filter language: which messages a consumer wants, by their properties.

A text becomes a closure over a message's properties (`sql92`). The language is that of 4.9.3, its
oddities included: `docs/filter.md` lists them. The groups' filters are kept by topic
(`consumer_filters`). When a message is dispatched, those that it passes become bits of a bloom
filter (`bloom`, `filter_table`); when it is pulled, its bits and its properties decide
(`record_filter`).

Read in this order: `errors`, `limits`, `sql92`, `tokens`, `grammar`, `expression`, `operators`,
`values`, `bloom`, `consumer_filters`, `filter_table`, `record_filter`.
"""
