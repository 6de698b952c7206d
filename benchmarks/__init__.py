"""Side by side with the real broker: the same driver, the same file system, in turns.

``python -m benchmarks`` runs it; ``README.md`` says how to read a number. Read in this order:
``rows`` (what is measured), ``sides`` (the two brokers), ``cost`` (what they use), ``load``,
``idle`` and ``rebuild`` (one run), ``pairs`` (turns), ``results`` (medians and files), ``table``
and ``picture`` (what is drawn from the files).
"""
