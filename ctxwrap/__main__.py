"""`python -m ctxwrap` is the command `ctxwrap`."""

from ctxwrap.cli import main

if __name__ == "__main__":
    main(prog_name="ctxwrap")
