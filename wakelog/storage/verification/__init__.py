"""Is a store what its log says? Comparisons that read, and write nothing.

`findings` is the result; `store_files` looks at names, kinds and lengths, without opening anything;
`queue_compare` and `index_compare` hold a store's derived files against a rebuild of them.
`wakelog.dispatchers.verify` puts them together.
"""
