"""The HTTP side: the paths of the API, the event stream, and who may use them. `clients.http.app` puts it together."""

from typing import Final

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 7373
