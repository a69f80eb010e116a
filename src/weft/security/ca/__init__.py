"""The CA as a server that speaks step-ca's HTTP calls, and its rotation."""
