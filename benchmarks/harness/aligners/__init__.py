"""Word aligners as commands: the corpora they read, how each is called, what it took and how well it aligned."""
