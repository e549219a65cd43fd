"""What tests stand on: a fake API server in virtual time, and a pytest plugin for a real cluster."""
