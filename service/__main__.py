"""`python -m service`: serve until told to stop."""

from __future__ import annotations

import logging
import os
import sys

import uvloop
from pydantic import ValidationError
from pydantic_settings import CliApp, SettingsError

from service.config import Settings, mistyped_variables
from service.errors import StartupError

_log = logging.getLogger("service")

_OLD_PROTOBUF = (
    "The installed protobuf is older than the one that gen/ was made with: upgrade it (pip install -U "
    "protobuf), or generate gen/ anew with the installed one (make proto)."
)


def main() -> int:
    """Run the service; return the exit status: 0 after a clean stop, 1 for what it could not start with."""
    try:
        settings = CliApp.run(Settings)
    except ValidationError as error:
        for line in _faults(error):
            print(line, file=sys.stderr)  # noqa: T201
        return 1
    except SettingsError as error:
        print(f"{str(error).removeprefix('error parsing CLI: ')}. See --help.", file=sys.stderr)  # noqa: T201
        return 1
    logging.basicConfig(
        level=settings.log_level.upper(),
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    # Every request to the runtime would be a line, and every part of the migrations; at debug every statement
    # and every header field would be one, with the secrets and the clients' keys in them.
    for talkative in ("httpx", "httpcore", "alembic", "aiosqlite", "sqlalchemy", "hpack"):
        logging.getLogger(talkative).setLevel(logging.ERROR)
    for name, meant in mistyped_variables(os.environ).items():
        _log.warning("the environment has %s, which is no setting: %s is one", name, meant)
    # Imported here: flags are checked, and `--help` answers, before the model's libraries load.
    try:
        from service.server import serve
    except Exception as error:
        # A protobuf older than gen/ raises VersionError, and one older still lacks the module that has it.
        if type(error).__name__ != "VersionError" and "runtime_version" not in str(error):
            raise
        print(_OLD_PROTOBUF, file=sys.stderr)  # noqa: T201
        return 1

    try:
        uvloop.run(serve(settings))
    except StartupError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


def _faults(error: ValidationError) -> list[str]:
    """Return a line for each setting that is wrong, under its flag's name."""
    faults: dict[str, str] = {}
    for fault in error.errors():
        # What follows the name tells which of a value's forms was tried.
        name, *inner = map(str, fault["loc"] or ("",))
        path = f"{name}.{inner[0]}" if name == "trt" and inner else name
        faults.setdefault(f"--{path.replace('_', '-')}", fault["msg"].removeprefix("Value error, "))
    # A fault of several settings together names them itself.
    return [message if flag == "--" else f"{flag}: {message}" for flag, message in faults.items()]


if __name__ == "__main__":
    sys.exit(main())
