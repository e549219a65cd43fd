"""Token: a JWT for a user, kept fresh in a Secret."""
