"""Announce, with the others of the attempt; then wait for a signal."""

import signal

from meet import announce_all

announce_all()
signal.pause()
