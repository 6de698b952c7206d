"""Programs that spark-submit starts by their path; in a folder of their own.

The folder of such a program is where Python looks for modules first, and nothing here may stand
before anybody's.
"""
