"""What aiohttp's client raises, as errors of the endpoint."""

from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp

from rollup_node.stages.io.http.endpoint_errors import AnswerTooLargeError, EndpointError, why_broken, why_not_connected
from rollup_node.stages.io.http.http_body import BodyEncodingError, BodyTooLargeError


@contextmanager
def endpoint_errors(name: str) -> Iterator[None]:
    """Raises EndpointError and AnswerTooLargeError, in which the endpoint goes by `name`, for the errors of a request
    and of reading its answer."""
    try:
        yield
    except BodyTooLargeError as error:
        raise AnswerTooLargeError(name, str(error)) from None
    except BodyEncodingError as error:
        raise EndpointError(name, str(error)) from None
    except aiohttp.ClientConnectorError as error:
        raise EndpointError(name, f"cannot connect ({why_not_connected(error.os_error)})") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise EndpointError(name, f"the connection failed ({why_broken(error)})") from None
