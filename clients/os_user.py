"""Who works on this machine, as the operating system says."""

from __future__ import annotations

import os
import platform
import pwd


def os_user() -> str:
    """Whom the operating system takes this process for, whatever its environment says."""
    number = os.getuid()
    try:
        return f"{pwd.getpwuid(number).pw_name} (uid {number}) on {platform.node()}"
    except KeyError:
        return f"uid {number} on {platform.node()}"
