"""Another user, as whom root runs programs and to whom it gives files."""

import os

import pytest

FOREIGN_USER = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")
