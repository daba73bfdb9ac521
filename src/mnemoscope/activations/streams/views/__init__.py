"""What each kind of memory shows of itself: who holds which token, and how much of it is used."""
