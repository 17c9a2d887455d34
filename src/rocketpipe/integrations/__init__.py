"""RocketPipe in other people's frameworks, a module each, on the public API alone."""
