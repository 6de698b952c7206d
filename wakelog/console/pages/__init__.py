"""The pages: routes, forms and what guards them. `app.make_app` makes the application.

site        what every page has: the console's parts, a page, its template
guard       hosts, security headers, proxies, what a form may have, roles
sessions    cookies, sessions, the token of forms
streams     answers that stay open
app         the routes of all pages, live parts, errors
others      the routes of one family each; what they say comes from `views`
"""
