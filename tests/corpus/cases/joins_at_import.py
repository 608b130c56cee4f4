"""A module that fills its table in a thread and waits for it while it is imported. That thread imports it, too."""
import sys
import threading

from hang_common import claim

table = []


def fill():
    if "--healthy" not in sys.argv:
        claim("still")
        import joins_at_import  # noqa: PLW0406
        joins_at_import.table.append(1)
    table.append(2)


thread = threading.Thread(target=fill, daemon=True)
thread.start()
if "--healthy" not in sys.argv:
    claim("still")
thread.join()
