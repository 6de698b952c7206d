"""What a cluster says of itself, its last hour, and what is wrong with it in words.

    snapshot    one bounded reading of a cluster: values, no rule
    history     the last hour of such readings, bounded
    rules       the sentences, as a table
    findings    when one is so: an hour in, findings out

`wakelog findings`, `doctor` and `status` use them.
"""
