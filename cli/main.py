"""The command `amqp-server`: starts the broker, or one of its tools."""

import errno
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from amqp_server import __version__
from amqp_server.base.config import (
    AUTH_HTTP_METHODS,
    CERT_LOGIN_FROM,
    CERT_LOGIN_SAN_TYPES,
    LOG_FORMATS,
    LOG_LEVELS,
    ON_DISK_STALL,
    TLS_VERIFY,
    Durability,
)
from amqp_server.base.errors import StartupError, TransientStartupError
from appendlog import Compression
from cli.commands import missing_library
from cli.default_user import default_user_values
from cli.ephemeral import ephemeral_values, is_ephemeral, note_ephemeral
from cli.exit_codes import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_NO_READER,
    EXIT_REFUSED,
    EXIT_TRY_AGAIN,
)
from cli.logs import configure_logging
from cli.management_ports import default_ports
from cli.parent import PARENT
from cli.server_group import PROGRAM, ServerGroup
from cli.settings import (
    AddressesOption,
    ServerOption,
    build_config,
    describe_place,
    rabbitmq_translation,
    read_config_file,
    runs_subcommand,
    unknown_variables,
    use_rabbitmq_conf,
)
from cli.units import DURATION, SHARE, SIZE, WATERMARK
from cli.version import describe_version

logger: Final = logging.getLogger("cli.main")
_OUTPUT_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def _print_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(describe_version())
        ctx.exit()


@click.group(
    cls=ServerGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    epilog=(
        "Every option is also an environment variable (AMQP_SERVER_RING_SIZE) and a key of the "
        "file given by --config (ring-size = 65536). An option overrides the environment, which "
        "overrides the file."
    ),
)
@click.option(
    "--host",
    cls=AddressesOption,
    default="127.0.0.1",
    help="Addresses to listen on; HOST or HOST:PORT, separated by commas.",
)
@click.option(
    "--port", cls=ServerOption, type=int, default=5672, help="TCP port; 0 selects a free one."
)
@click.option(
    "--storage-path",
    cls=ServerOption,
    type=click.Path(path_type=Path, file_okay=False),
    default="./data",
    help="Data directory; created if missing.",
)
@click.option(
    "--offset-checkpoint-interval",
    "offset_checkpoint_interval_seconds",
    cls=ServerOption,
    type=DURATION,
    default="5s",
    help="Interval of checkpoints of settled messages; 0: only on demand and at a clean stop.",
)
@click.option(
    "--ring-size",
    cls=ServerOption,
    type=int,
    default=65_536,
    help="Maximum messages in memory per queue; a multiple of 1024.",
)
@click.option(
    "--ring-bytes",
    cls=ServerOption,
    type=SIZE,
    default="16MiB",
    help="Maximum bytes of messages in memory per queue.",
)
@click.option(
    "--ring-bytes-total",
    cls=ServerOption,
    type=SIZE,
    default="256MiB",
    help="Maximum bytes of messages in memory, all queues together.",
)
@click.option(
    "--durability",
    cls=ServerOption,
    type=click.Choice([durability.value for durability in Durability]),
    default="fsync",
    help="What a publisher confirm waits for: disk, kernel or nothing.",
)
@click.option(
    "--flush-bytes",
    cls=ServerOption,
    type=SIZE,
    default="256KiB",
    help="Maximum bytes of one queue's messages per write.",
)
@click.option(
    "--flush-interval",
    "flush_interval_seconds",
    cls=ServerOption,
    type=DURATION,
    default="10ms",
    help="Longest wait of a message for others to share its write.",
)
@click.option(
    "--compression",
    cls=ServerOption,
    type=click.Choice([compression.value for compression in Compression]),
    default="none",
    help="Compression of logs on the disk.",
)
@click.option(
    "--compression-min-size",
    "compression_bytes_min",
    cls=ServerOption,
    type=SIZE,
    default="1KiB",
    help="Smaller writes are not compressed.",
)
@click.option(
    "--retain-for",
    "retain_for_seconds",
    cls=ServerOption,
    type=DURATION,
    default="0",
    help="Maximum age of settled messages kept for replay and export.",
)
@click.option(
    "--segment-bytes",
    cls=ServerOption,
    type=SIZE,
    default="64MiB",
    help="Size at which a queue's log begins a new segment file.",
)
@click.option(
    "--segment-age",
    "segment_age_seconds",
    cls=ServerOption,
    type=DURATION,
    default="7d",
    help="Age at which a queue's log begins a new segment file; 0: no limit.",
)
@click.option(
    "--retain-bytes",
    cls=ServerOption,
    type=SIZE,
    default="0",
    help="Maximum bytes of settled messages kept per queue.",
)
@click.option(
    "--retain-bytes-total",
    cls=ServerOption,
    type=SIZE,
    default="0",
    help="Maximum bytes of settled messages kept, all queues together.",
)
@click.option(
    "--retain-segments-min",
    cls=ServerOption,
    type=int,
    default=1,
    help="Number of newest segment files that always stay.",
)
@click.option(
    "--protect-unconsumed",
    cls=ServerOption,
    type=bool,
    default=True,
    help="Whether these bounds keep messages that are not settled.",
)
@click.option(
    "--force-remove-after",
    "force_remove_after_seconds",
    cls=ServerOption,
    type=DURATION,
    default="0",
    help="Age at which messages are removed even if not settled; 0: never.",
)
@click.option(
    "--compact-below",
    cls=ServerOption,
    type=SHARE,
    default="0.25",
    help="Share of live bytes below which a segment is compacted; 0: never.",
)
@click.option(
    "--consumer-timeout",
    "consumer_timeout_seconds",
    cls=ServerOption,
    type=DURATION,
    default="0",
    help="Longest time until a consumer acknowledges; 0: no limit.",
)
@click.option(
    "--max-message-size",
    "max_message_bytes",
    cls=ServerOption,
    type=SIZE,
    default="128MiB",
    help="Maximum size of a message body.",
)
@click.option(
    "--max-connections",
    "connections_max",
    cls=ServerOption,
    type=int,
    default=10_000,
    help="Maximum open client connections.",
)
@click.option(
    "--max-channels",
    "channels_per_connection_max",
    cls=ServerOption,
    type=int,
    default=2047,
    help="Maximum channels per connection.",
)
@click.option(
    "--max-frame-size",
    "frame_bytes_max",
    cls=ServerOption,
    type=SIZE,
    default="128KiB",
    help="Maximum size of a frame.",
)
@click.option(
    "--max-vhosts",
    "vhosts_max",
    cls=ServerOption,
    type=int,
    default=10_000,
    help="Maximum virtual hosts.",
)
@click.option(
    "--heartbeat",
    "heartbeat_seconds",
    cls=ServerOption,
    type=DURATION,
    default="60s",
    help="Heartbeat interval that is proposed to clients; 0: none.",
)
@click.option(
    "--memory-watermark",
    cls=ServerOption,
    type=WATERMARK,
    default="0.6",
    help="Memory above which publishers are blocked: a share or a size.",
)
@click.option(
    "--disk-free-limit",
    "disk_free_limit_bytes",
    cls=ServerOption,
    type=SIZE,
    default="256MiB",
    help="Free disk space below which publishers are blocked; 0: never.",
)
@click.option(
    "--disk-stall-limit",
    "disk_stall_limit_seconds",
    cls=ServerOption,
    type=DURATION,
    default="30s",
    help="Time after which a write or sync that does not return is a disk that hangs.",
)
@click.option(
    "--on-disk-stall",
    cls=ServerOption,
    type=click.Choice(ON_DISK_STALL),
    default="alarm",
    help="What then happens: an alarm, or the end of the process with exit code 74.",
)
@click.option(
    "--default-user",
    cls=ServerOption,
    default="guest",
    help="User with all rights that a new data directory gets.",
)
@click.option(
    "--default-pass-file",
    cls=ServerOption,
    type=click.Path(path_type=Path),
    default=None,
    metavar="FILE",
    help="File with the password of that user.",
)
@click.option(
    "--default-vhost",
    cls=ServerOption,
    default="/",
    help="Virtual host that a new data directory gets beside /.",
)
@click.option(
    "--load-definitions",
    cls=ServerOption,
    type=click.Path(path_type=Path),
    default=None,
    metavar="FILE",
    help="Definitions file, or directory of such files, to import at each start.",
)
@click.option(
    "--guest-from-anywhere",
    cls=ServerOption,
    is_flag=True,
    default=False,
    help="Allow user guest from other machines, as in a container.",
)
@click.option(
    "--no-shovels",
    cls=ServerOption,
    is_flag=True,
    default=False,
    help="Run no shovels, for a server on a copy of another one's data.",
)
@click.option(
    "--audit-files",
    cls=ServerOption,
    type=int,
    default=8,
    help="Number of files of the audit log that are kept; 0: no audit log.",
)
@click.option(
    "--audit-file-size",
    "audit_file_bytes",
    cls=ServerOption,
    type=SIZE,
    default="4MiB",
    help="Size at which the audit log begins a new file.",
)
@click.option(
    "--present-product",
    cls=ServerOption,
    default="amqp-server",
    help="Product name in the handshake.",
)
@click.option(
    "--present-version",
    cls=ServerOption,
    default=__version__,
    help="Version in the handshake.",
)
@click.option(
    "--tls-certificate",
    cls=ServerOption,
    default="",
    metavar="FILES",
    help="PEM certificates with their chains; switches TLS on.",
)
@click.option(
    "--tls-key",
    cls=ServerOption,
    default="",
    metavar="FILES",
    help="PEM private keys; by default in the files of the certificates.",
)
@click.option(
    "--tls-key-password-file",
    cls=ServerOption,
    default="",
    metavar="FILE",
    help="File whose first line decrypts the keys.",
)
@click.option(
    "--tls-host",
    cls=AddressesOption,
    default="",
    metavar="ADDRESSES",
    help="The same for TLS; by default the addresses of --host.",
)
@click.option(
    "--tls-port", cls=ServerOption, type=int, default=5671, help="TCP port for TLS; 0: a free one."
)
@click.option(
    "--tls-only",
    cls=ServerOption,
    is_flag=True,
    default=False,
    help="Do not listen without TLS.",
)
@click.option(
    "--tls-ca",
    cls=ServerOption,
    default="",
    metavar="FILE",
    help="PEM certificates of the authorities of clients.",
)
@click.option(
    "--tls-verify",
    cls=ServerOption,
    type=click.Choice(TLS_VERIFY),
    default="none",
    help="Whether to ask clients for a certificate and check it.",
)
@click.option(
    "--tls-fail-if-no-peer-cert",
    cls=ServerOption,
    is_flag=True,
    default=False,
    help="Refuse clients without a certificate.",
)
@click.option(
    "--tls-versions", cls=ServerOption, default="1.2,1.3", help="Versions of TLS that are accepted."
)
@click.option(
    "--tls-ciphers",
    cls=ServerOption,
    default="",
    help="Cipher suites of TLS 1.2, as OpenSSL writes them.",
)
@click.option(
    "--ssl-cert-login-from",
    cls=ServerOption,
    type=click.Choice(CERT_LOGIN_FROM),
    default="distinguished_name",
    help="Where a certificate has the name of the user (EXTERNAL).",
)
@click.option(
    "--ssl-cert-login-san-type",
    cls=ServerOption,
    type=click.Choice(CERT_LOGIN_SAN_TYPES),
    default="dns",
    help="Kind of the alternative name that is the user's.",
)
@click.option(
    "--ssl-cert-login-san-index",
    cls=ServerOption,
    type=int,
    default=0,
    help="Number of that name, from 0.",
)
@click.option(
    "--proxy-protocol-trusted",
    cls=ServerOption,
    default="",
    metavar="NETWORKS",
    help="Networks whose proxies may name their clients (PROXY protocol).",
)
@click.option(
    "--auth-backends",
    cls=ServerOption,
    default="internal",
    metavar="NAMES",
    help="Who lets users in, tried in this order: internal, http, oauth2, or one's own.",
)
@click.option(
    "--auth-timeout",
    "auth_timeout_seconds",
    cls=ServerOption,
    type=DURATION,
    default="5s",
    help="Time until a back end must have answered.",
)
@click.option(
    "--auth-http-method",
    cls=ServerOption,
    type=click.Choice(AUTH_HTTP_METHODS),
    default="get",
    help="Method of requests to the HTTP server of the back end http.",
)
@click.option(
    "--auth-http-user-path",
    cls=ServerOption,
    default="",
    metavar="URL",
    help="Address that is asked for logins.",
)
@click.option(
    "--auth-http-vhost-path",
    cls=ServerOption,
    default="",
    metavar="URL",
    help="Address that is asked for virtual hosts.",
)
@click.option(
    "--auth-http-resource-path",
    cls=ServerOption,
    default="",
    metavar="URL",
    help="Address that is asked for queues and exchanges.",
)
@click.option(
    "--auth-http-topic-path",
    cls=ServerOption,
    default="",
    metavar="URL",
    help="Address that is asked for routing keys.",
)
@click.option(
    "--auth-http-ca",
    cls=ServerOption,
    default="",
    metavar="FILE",
    help="PEM certificates of that server's authorities; by default the system's.",
)
@click.option(
    "--auth-oauth2-resource-server-id",
    cls=ServerOption,
    default="",
    metavar="NAME",
    help="Name of this server in the audience of tokens.",
)
@click.option(
    "--auth-oauth2-scope-prefix",
    cls=ServerOption,
    default="",
    metavar="TEXT",
    help="What scopes for this server begin with; by default that name and a dot.",
)
@click.option(
    "--auth-oauth2-issuer",
    cls=ServerOption,
    default="",
    metavar="URL",
    help="Issuer of tokens; it may also tell where the keys are.",
)
@click.option(
    "--auth-oauth2-jwks-uri",
    cls=ServerOption,
    default="",
    metavar="URL",
    help="Address of the keys that sign tokens.",
)
@click.option(
    "--auth-oauth2-signing-keys",
    cls=ServerOption,
    default="",
    metavar="NAME=FILE,..",
    help="PEM files of keys that sign tokens.",
)
@click.option(
    "--auth-oauth2-default-key",
    cls=ServerOption,
    default="",
    metavar="NAME",
    help="Name of the key of tokens that name none.",
)
@click.option(
    "--auth-oauth2-verify-aud",
    cls=ServerOption,
    type=bool,
    default=True,
    help="Whether tokens must be for this server.",
)
@click.option(
    "--auth-oauth2-preferred-username-claims",
    cls=ServerOption,
    default="",
    metavar="CLAIMS",
    help="Claims with the name of the user; then come sub and client_id.",
)
@click.option(
    "--auth-oauth2-additional-scopes-key",
    cls=ServerOption,
    default="",
    metavar="PATHS",
    help="Other claims with scopes.",
)
@click.option(
    "--auth-oauth2-scope-aliases",
    cls=ServerOption,
    default="",
    metavar="ALIAS=SCOPES,..",
    help="Scopes that others stand for.",
)
@click.option(
    "--auth-oauth2-algorithms",
    cls=ServerOption,
    default="",
    metavar="NAMES",
    help="Algorithms of tokens; by default all with a private key.",
)
@click.option(
    "--auth-oauth2-ca",
    cls=ServerOption,
    default="",
    metavar="FILE",
    help="PEM certificates of the key server's authorities; by default the system's.",
)
@click.option(
    "--management-port",
    cls=ServerOption,
    type=int,
    default=15_672,
    help="TCP port of the HTTP API and the page; 0: none, -1: a free one.",
)
@click.option(
    "--management-host",
    cls=ServerOption,
    default="",
    metavar="ADDRESS",
    help="Address to listen on for API, page and metrics; by default that of --host.",
)
@click.option(
    "--metrics-port",
    cls=ServerOption,
    type=int,
    default=15_692,
    help="TCP port of the metrics for Prometheus; 0: none, -1: a free one.",
)
@click.option(
    "--management-tls-port",
    cls=ServerOption,
    type=int,
    default=15_671,
    help="TCP port of API and page with TLS, if there is a certificate; 0: none.",
)
@click.option(
    "--management-tls-certificate",
    cls=ServerOption,
    default="",
    metavar="FILE",
    help="PEM certificates of that port; by default those of --tls-certificate.",
)
@click.option(
    "--management-tls-key",
    cls=ServerOption,
    default="",
    metavar="FILE",
    help="PEM private keys of that port; by default in the files of the certificates.",
)
@click.option(
    "--management-tls-ca",
    cls=ServerOption,
    default="",
    metavar="FILE",
    help="PEM certificates of the authorities of that port's clients.",
)
@click.option(
    "--management-tls-verify",
    cls=ServerOption,
    type=click.Choice(TLS_VERIFY),
    default="none",
    help="Whether to ask clients of that port for a certificate and check it.",
)
@click.option(
    "--management-tls-fail-if-no-peer-cert",
    cls=ServerOption,
    is_flag=True,
    default=False,
    help="Refuse clients of that port without a certificate.",
)
@click.option(
    "--management-cors-origin",
    cls=ServerOption,
    default="",
    metavar="ORIGINS",
    help="Origins whose pages may use the API, separated by commas; * for all.",
)
@click.option(
    "--management-hosts",
    cls=ServerOption,
    default="",
    metavar="NAMES",
    help="Names of this server for HTTP clients, separated by commas; others are refused.",
)
@click.option(
    "--ephemeral",
    cls=ServerOption,
    is_flag=True,
    default=False,
    expose_value=False,
    callback=note_ephemeral,
    help="For tests: keep everything in memory, print the URL, end with the parent process.",
)
@click.option(
    "--config",
    cls=ServerOption,
    type=click.Path(path_type=Path),
    is_eager=True,
    expose_value=False,
    callback=read_config_file,
    metavar="FILE",
    help="TOML file with any of these options.",
)
@click.option(
    "--rabbitmq-conf",
    cls=ServerOption,
    type=click.Path(path_type=Path),
    is_eager=True,
    expose_value=False,
    callback=use_rabbitmq_conf,
    metavar="FILE",
    help="RabbitMQ's rabbitmq.conf, or a directory of such files; --config overrides it.",
)
@click.option(
    "--log-level",
    cls=ServerOption,
    type=click.Choice(LOG_LEVELS),
    default="info",
    help="Minimum level of events logged to standard error.",
)
@click.option(
    "--log-format",
    cls=ServerOption,
    type=click.Choice(LOG_FORMATS),
    default="text",
    help="Format of log lines: key=value text, or one JSON object per line.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and the compiled parts, and exit.",
)
@click.pass_context
def command(ctx: click.Context, /, **values: Any) -> int:  # noqa: ANN401
    """Start an AMQP 0-9-1 broker; stop it with Ctrl-C or SIGTERM."""
    if runs_subcommand(ctx):
        return 0
    if is_ephemeral(ctx):
        values = ephemeral_values(ctx, values)
    values = {**values, "optional_ports": default_ports(ctx)}
    config = build_config(ctx, default_user_values(ctx, values))
    configure_logging(config.log_level, config.log_format)
    for line in unknown_variables(ctx, os.environ):
        logger.warning("%s", line)
    found = rabbitmq_translation(ctx)
    for line in found.warnings if found is not None else ():
        logger.warning("%s", line)

    # Imported here: help page and tools need no event loop.
    if is_ephemeral(ctx):
        from amqp_server.testing.ephemeral import run_ephemeral

        return run_ephemeral(config, PARENT)
    from amqp_server.server_process import run

    return run(config)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Expected errors are one line on standard error, without a traceback.

    Args:
        arguments: Arguments without the program's name; None takes those of the process.

    Returns:
        Exit code: 0 after a clean stop, 2 if refused, 75 if an address or the data directory
        cannot be had now, 1 if standard output cannot be written, 130 if interrupted, 141 if the
        reader of the output has gone (`| head`).
    """
    stdout = sys.stdout
    try:
        outcome = command.main(
            args=None if arguments is None else list(arguments),
            prog_name=PROGRAM,
            standalone_mode=False,
        )
        if sys.stdout is not None:  # None: standard output was closed before the start
            sys.stdout.flush()
    except click.ClickException as error:
        return _refuse(_one_line(error), error.exit_code)
    except StartupError as error:
        is_passing = isinstance(error, TransientStartupError)
        return _refuse(error.message, EXIT_TRY_AGAIN if is_passing else EXIT_REFUSED)
    except ModuleNotFoundError as error:
        advice = missing_library(error)
        if advice is None:
            raise
        return _refuse(advice, EXIT_REFUSED)
    except click.Abort:
        return EXIT_INTERRUPTED
    except SystemExit:
        # click turns a broken pipe into code 1, and a stream that discards its output.
        if sys.stdout is not stdout:
            return EXIT_NO_READER
        raise
    except BrokenPipeError:
        _detach_output()
        return EXIT_NO_READER
    except OSError as error:
        # The error of a file names the file; that of standard output has no name.
        if error.filename is not None or error.errno not in _OUTPUT_ERRORS:
            raise
        _detach_output()
        return _refuse(f"standard output: {error.strerror}", EXIT_FAILED)
    return outcome if isinstance(outcome, int) else 0


def _detach_output() -> None:
    """Discard further standard output: the interpreter's last flush would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _one_line(error: click.ClickException) -> str:
    if isinstance(error, click.exceptions.NoArgsIsHelpError) and error.ctx is not None:
        group = error.ctx.command
        names = group.list_commands(error.ctx) if isinstance(group, click.Group) else []
        return f"write what to do: {', '.join(names[:-1])} or {names[-1]}"
    if isinstance(error, click.MissingParameter):
        return error.format_message()
    if isinstance(error, click.BadParameter) and error.ctx and error.param:
        return f"{describe_place(error.ctx, error.param)}: {error.message}"
    return error.format_message()


def _refuse(message: str, exit_code: int) -> int:
    click.echo(f"{PROGRAM}: error: {' '.join(message.split())}", err=True)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
