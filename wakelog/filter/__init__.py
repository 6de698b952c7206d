"""The SQL92 filter language: which messages a consumer wants, by their properties.

A text becomes a closure over a message's properties (`sql92`). The language is that of 4.9.3, its
oddities included: `docs/filter.md` lists them.

Which filters a message passed is kept as bits of a bloom filter (`bloom`), in 4.9.3; here the bits
are computed for the file of the groups' filters (`consumer_filters`), and every record is judged by
its own properties (`record_filter`).

Read in this order: `sql92`, `tokens`, `grammar`, `expression`, `operators`,
`values`, `bloom`, `consumer_filters`, `record_filter`.
"""
