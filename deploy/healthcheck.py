"""Ask this container's own server how it is; exit 0 if it answers 200 (the slim image has neither curl nor wget).

python healthcheck.py [PATH | URL]      a path is asked of the port in PARSIMONY_PORT
"""

import os
import sys
import urllib.request

what = sys.argv[1] if len(sys.argv) > 1 else "/health/live"
url = what if "://" in what else f"http://127.0.0.1:{os.environ.get('PARSIMONY_PORT', '8000')}{what}"
# Docker hands a configured HTTP proxy to every container; a question to oneself must not go through it.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
try:
    with opener.open(url, timeout=4):
        pass
except OSError as error:  # HTTPError, for any status that is an error, is one of these
    sys.exit(f"{url}: {error}")
