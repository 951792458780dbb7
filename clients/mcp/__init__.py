"""Runs for agents, over the Model Context Protocol: what they may read, and what somebody let them do beyond."""

from typing import Final

DEFAULT_PORT: Final = 8090
PATH: Final = "/v1/mcp"
"""Below what the guard of the HTTP side asks the token for."""
