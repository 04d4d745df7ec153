"""HTTP, one module a resource: parse, call, answer; no arithmetic. A kind's module ends with its ``KindRoutes``."""
