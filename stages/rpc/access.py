"""Who may call what: host names, web pages of other origins, and tokens for the admin API [RPC5, RPC86 to RPC88]."""

import ipaddress

import msgspec

from rollup_node.stages.protocol.jwt_token import token_error

ANY = "*"


class Access(msgspec.Struct, frozen=True):
    """`vhosts` are the names that a Host header may have, `cors_domains` the origins whose web pages may call.

    `*` is any. With a `jwt_secret` the admin API needs a token."""

    vhosts: tuple[str, ...] = (ANY,)
    cors_domains: tuple[str, ...] = ()
    jwt_secret: bytes | None = None

    def accepts_host(self, header: str | None) -> bool:
        """Return whether a request may be addressed to this Host, as it may without the header and to IP addresses.

        A web page that has made its own name point here cannot leave the name out."""
        if ANY in self.vhosts or not header:
            return True
        name = _host_name(header)
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in {vhost.lower() for vhost in self.vhosts}
        return True

    def accepts_origin(self, origin: str | None) -> bool:
        """Whether a web page of this origin may call; what is no web page sends no Origin."""
        domains = self.cors_domains
        return origin is None or ANY in domains or origin.lower() in {domain.lower() for domain in domains}

    def admin_error(self, authorization: str, now: float) -> str | None:
        """Return why the admin API is not for the client with this Authorization header; None if it is."""
        return None if self.jwt_secret is None else token_error(authorization, self.jwt_secret, now)


def _host_name(header: str) -> str:
    """Return the name or address in a Host header, without port and brackets."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0].rstrip(".").lower()
