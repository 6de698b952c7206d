"""What a cluster says of itself, its last hour, what is wrong with it in words, and its pages.

    cluster_reading  one bounded reading of a cluster: values, no rule
    waiting          of it, the delayed and half messages of a master
    history          the last hour of such readings, bounded
    rules            the sentences, as a table
    findings         when one is so: an hour in, findings out
    health           of them, those of the brokers of one deployment, for probes
    overdue          which delayed messages are overdue, as findings and pages say it
    shared           what a page wants besides, read once for all viewers
    reader           the shell that reads again and again, for all viewers
    views            what pages say: reading and history in, rows out
    actions          what can be changed: each action is a command of `wakelog`
    pages            routes, templates, and what guards them
    serve            the server around them

`wakelog findings`, `doctor` and `status` use the first four, `wakelog console` all.
"""
