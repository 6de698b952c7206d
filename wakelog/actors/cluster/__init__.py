"""Ray as wakelog uses it: a private one to run in, and the options of every actor.

Read `ray_cluster.py`, then `options.py`, then `group.py`; `ray_head.py` is the process behind the
first. `charge.py` is how one actor is looked after. Nothing here knows a message.
"""
