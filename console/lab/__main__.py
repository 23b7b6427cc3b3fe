"""python -m console.lab"""

from __future__ import annotations

import sys

from console.lab.main import main

sys.exit(main())
