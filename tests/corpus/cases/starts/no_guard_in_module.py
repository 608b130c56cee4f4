"""Has its guard, but imports a module that starts a process."""
import starts_at_import

if __name__ == "__main__":
    starts_at_import.helper.join()
