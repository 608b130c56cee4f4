"""The user's own, as PYTHONPATH brings it."""
import builtins

builtins.own_site_was_here = True
