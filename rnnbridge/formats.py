"""Moved to rnnbridge.catalogue, because `rb.formats` is a public function; this name goes away before the release."""

from rnnbridge.catalogue import *  # noqa: F403
