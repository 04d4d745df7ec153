"""Between the socket and the routes: the server, and the layers that every request passes."""
