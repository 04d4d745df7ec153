"""HTTP routes, one module per resource.

Routes parse a request, call other modules, and encode the reply. The module of a kind ends with its ``KindRoutes``.
"""
