"""What a running wakelog shows of itself: metric names, their exposition, and logs.

Read in this order:

metrics       the table of names; its rows are in request_metrics, store_metrics, actor_metrics
collector     from statistics to families
histogram     the counters that cores keep for durations
pieces        statistics with thousands of names, a part at a time
exposition    the HTTP end
logs          one logger for each of 4.9.3's appenders
crash_traces  the stack of a process that crashes, beside its logs

Nothing here knows another folder: a core offers ``statistics()``, a shell turns it into builtins,
and a row of ``metrics.METRICS`` says where in them its value stands.
"""
