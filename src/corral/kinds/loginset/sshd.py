"""sshd's settings. Pure.

The first value of a keyword counts, and a Match block goes on to the end of the file: the user's lines come before ours
up to their first Match, and the rest of them after ours.
"""

PID_FILE = "/run/sshd/sshd.pid"
AUTHORIZED_KEYS_COMMAND = "/usr/libexec/corral/authorized-keys %u"


def sshd_config(extra: str, *, port: int, passwords: bool) -> str:
    """`passwords`: there is a directory that knows some."""
    ours = (
        f"Port {port}",
        f"PidFile {PID_FILE}",
        "UsePAM yes",
        "PermitRootLogin prohibit-password",
        f"PasswordAuthentication {'yes' if passwords else 'no'}",
        "KbdInteractiveAuthentication no",
        f"AuthorizedKeysCommand {AUTHORIZED_KEYS_COMMAND}",
        "AuthorizedKeysCommandUser nobody",
        "X11Forwarding yes",
        "PrintMotd no",
        "AcceptEnv LANG LC_*",
        "Subsystem sftp internal-sftp",
        # Behind a Service many people come from one address: one who fails must not lock out the others.
        "PerSourcePenalties no",
    )
    lines = extra.splitlines()
    first_match = next((n for n, line in enumerate(lines) if line.split()[:1] in (["Match"], ["match"])), len(lines))
    return "".join(f"{line}\n" for line in (*lines[:first_match], *ours, *lines[first_match:]))
