"""HTTP server, and the middleware around all routes."""
