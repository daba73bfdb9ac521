"""Does a model keep its promises about state? One table of promises, one function for each."""
