"""What can go wrong when we speak to Kubernetes, and what the engine does about it.

KubeError
    CredentialsError     a kubeconfig, key or plugin is wrong            a person must act; the message says where
    Unreachable          no answer: refused, reset, deadline passed     try again, with backoff
    ApiError             the server answered, and the answer is no
        NotFound         404                                            often fine: it is gone
        AlreadyExists    409, reason AlreadyExists                      observe and plan again
        Conflict         409: our view was old                          observe and plan again; never resend
        Expired          410: the version we resume from is too old     list again
        Invalid          422 with its causes by field; 400, 413         report to the user; a retry cannot help
            StreamingListUnsupported  a watch cannot begin with a list  list, then watch
        Unauthorized     401                                            refresh credentials once, then report
        Forbidden        403: names verb, resource and who we are       report; slow retry
        TooManyRequests  429                                            wait as told (`retry_after_s`)
        ServerTimeout    504, or 500 with reason ServerTimeout/Timeout  try again
        ServerError      any other 5xx                                  try again, with backoff
    Garbled              an answer that cannot be decoded               our bug or theirs: keep the start of the bytes
    Refused              we did not send it (a fence said no)           observe and plan again when we may write

Every error names verb, kind, namespace and name. Nothing of aiohttp, ssl or msgspec escapes `corral.kube`.
"""

import msgspec


class Subject(msgspec.Struct, frozen=True):
    """What a request was about; every error carries one."""

    verb: str
    kind: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        where = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{self.verb} {self.kind}" + (f" {where}" if where else "")


class Cause(msgspec.Struct, frozen=True):
    """One field the server did not accept."""

    field: str
    message: str
    reason: str = ""


class KubeError(Exception):
    def __init__(self, subject: Subject, message: str) -> None:
        super().__init__(f"{subject}: {message}")
        self.subject = subject
        self.message = message


class CredentialsError(KubeError):
    pass


class Unreachable(KubeError):
    """`sent` is False only when it is certain that no byte of the request left us: then any verb may be repeated."""

    def __init__(self, subject: Subject, message: str, *, sent: bool = True) -> None:
        super().__init__(subject, message)
        self.sent = sent


class Garbled(KubeError):
    pass


class Refused(KubeError):
    pass


class ApiError(KubeError):
    def __init__(
        self,
        subject: Subject,
        message: str,
        *,
        status: int,
        reason: str = "",
        causes: tuple[Cause, ...] = (),
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(subject, message)
        self.status = status
        self.reason = reason
        self.causes = causes
        self.retry_after_s = retry_after_s


class NotFound(ApiError):
    pass


class AlreadyExists(ApiError):
    pass


class Conflict(ApiError):
    pass


class Expired(ApiError):
    pass


class Invalid(ApiError):
    pass


class StreamingListUnsupported(Invalid):
    pass


class Unauthorized(ApiError):
    pass


class Forbidden(ApiError):
    pass


class TooManyRequests(ApiError):
    pass


class ServerTimeout(ApiError):
    pass


class ServerError(ApiError):
    pass
