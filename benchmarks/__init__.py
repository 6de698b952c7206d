"""Side by side with the real broker: the same driver, the same file system, in turns.

``python -m benchmarks`` runs it; ``README.md`` says how to read a number. Read in this order:

rows                   what is measured
sides, cost            the two brokers, and what they use
load, idle, rebuild    one run
pairs                  runs of both sides in turn
results                medians and files
table, picture         what is drawn from the files
"""
