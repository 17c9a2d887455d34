"""Other people's frameworks on RocketPipe: each an extra, imported only when used."""
