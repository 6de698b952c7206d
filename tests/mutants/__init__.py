"""Defects of a few lines that are planted in a copy, one at a time, to see what notices them.

A patch says in its head what the defect is and which tests are to notice it. A test that notices
none of what it is for has become blind. `./dev mutants` tries all, or those that are named.
"""
