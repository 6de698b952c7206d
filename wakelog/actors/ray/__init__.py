"""Ray as wakelog uses it: how one is started or joined, and the options of every actor.

Read `private_ray`, then `head`, the process that it starts, then `options`. `fast_start` holds
everything that reaches into Ray's private modules. `hosted_ray` is a Ray inside a Spark session.
"""
