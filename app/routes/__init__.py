"""HTTP, one module a resource: parse, call, answer; no arithmetic. A subject's module ends with its ``Subject``."""
