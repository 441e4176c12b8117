"""`python -m rnnbridge`: the same as the `rnnbridge` command."""

import sys

from rnnbridge.cli import main

sys.exit(main())
