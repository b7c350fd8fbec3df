"""Requests that clients send and should not: strategies, a campaign against one server, and what was found before."""
