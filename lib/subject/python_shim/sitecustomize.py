# Put first on PYTHONPATH by dlprobe, for a command that it starts. Loads what was asked for, then makes way for the
# sitecustomize that this interpreter would have loaded without it. Runs under any Python, 2.7 too.
import sys


def _own_folder():
    return __file__.replace("\\", "/").rpartition("/")[0]


def _step_aside(folder):
    sys.path[:] = [entry for entry in sys.path if entry != folder]
    sys.path_importer_cache.pop(folder, None)


def _next_sitecustomize():
    """What Python would have done: the module replaces this one, or there is none."""
    if sys.version_info[0] < 3:
        import imp
        del sys.modules["sitecustomize"]
        imp.load_module("sitecustomize", *imp.find_module("sitecustomize"))
    else:
        del sys.modules["sitecustomize"]
        import sitecustomize  # noqa: F401 (the import system takes what is in sys.modules in the end)


def _has_higher_rights(folder):
    """A setuid or setgid program, or one of sudo that keeps the environment: who has fewer rights does not watch it."""
    import os
    owner = os.stat(folder).st_uid
    return owner != 0 and (owner != os.geteuid() or os.getgid() != os.getegid())


def _load_start(folder):
    # Nothing of it may make the program fail. It is compiled once, in its own folder, whatever the program does with its own.
    if sys.version_info[:2] < (3, 6):
        return
    settings = sys.dont_write_bytecode, getattr(sys, "pycache_prefix", None)
    try:
        if _has_higher_rights(folder):
            return
        sys.dont_write_bytecode, sys.pycache_prefix = False, None
        import dlprobe_start
        dlprobe_start.install()
    except Exception:
        pass
    finally:
        sys.dont_write_bytecode, sys.pycache_prefix = settings


_folder = _own_folder()
_load_start(_folder)
_step_aside(_folder)
_next_sitecustomize()
