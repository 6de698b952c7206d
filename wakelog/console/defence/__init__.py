"""What keeps one peer of the console from harming others: bounds, and what is believed of whom.

attempts     how often a login may fail
passwords    how a password is kept and compared
places       how many of something one holder may have, and all of them
proxies      which address and scheme a request came by
connections  time limits and places of HTTP connections
known_hosts  only name servers, and brokers that they know, are asked
"""
