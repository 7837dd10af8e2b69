"""`python CHECKOUT/pyhelpers VERB`: how bin/outlast starts outlast, without PYTHONPATH and without installing it."""

import sys

from outlast.__main__ import main

sys.exit(main())
