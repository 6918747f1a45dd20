"""Checks of peer-to-peer options that need parsers or files, the remote signer, and the network key."""

import re

from rollup_node.node.options import value_types
from rollup_node.node.options.errors import OptionError, shown
from rollup_node.node.options.values import Values, build_config
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.io.files.private_files import read_secret_file
from rollup_node.stages.p2p.addresses.peer_id import NetworkIdentity
from rollup_node.stages.p2p.blocks.signing import LocalSigner
from rollup_node.stages.p2p.config import P2pConfig, SignerConfig
from rollup_node.stages.p2p.discv5.enode import parse_bootnode
from rollup_node.stages.p2p.peering.peer_info import StaticPeerError, parse_static_peers
from rollup_node.stages.p2p.signer.io.remote_signer import TlsFileError, TlsFiles
from rollup_node.stages.p2p.storage.io.key_file import IdentityFileError, load_identity

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
MAX_KEY_FILE = 4096


def sequencer_key(values: Values) -> bytes | None:
    """Return the key with which blocks are signed, of `p2p.sequencer.key` or its file. Raises OptionError."""
    path: str | None = values["p2p.sequencer.key.path"]
    key: bytes | None = values["p2p.sequencer.key"]
    if not path:
        return key
    reason = "expected a private key: 32 bytes in hex"
    try:
        key = value_types.KEY.read(read_secret_file(path, MAX_KEY_FILE).decode("ascii").strip())
        if key is not None:
            return key
    except OSError as error:
        reason = str(error.strerror)
    except ValueError:
        pass
    raise OptionError(f"key file {shown(path)}: {reason} (p2p.sequencer.key.path)")


def signer_config(values: Values) -> SignerConfig | None:
    """Return the configuration of the remote signer, None without `signer.endpoint`."""
    return build_config(SignerConfig, values) if values["signer.endpoint"] else None


def check_p2p_config(config: P2pConfig) -> None:
    """Raise OptionError for a malformed bootnode, sequencer key or signer's header, or an unusable `signer.tls.*`."""
    for text in config.bootnodes:
        try:
            parse_bootnode(text)
        except ValueError as error:
            raise OptionError(str(error)) from None
    if config.sequencer_key is not None:
        try:
            LocalSigner(config.sequencer_key)
        except ValueError:
            raise OptionError("p2p.sequencer.key is not a private key of secp256k1") from None
    if config.signer is not None:
        _check_signer_config(config.signer)


def _check_signer_config(config: SignerConfig) -> None:
    if not all(_HEADER_NAME.fullmatch(name) for name, _ in config.headers):
        raise OptionError("signer.header must have the form key=value, where the key is the name of an HTTP header")
    try:
        if config.tls_enabled:
            TlsFiles(config).context()
    except TlsFileError as error:
        raise OptionError(str(error)) from None


def load_network_key(config: P2pConfig) -> NetworkIdentity:
    """Return the identity of `p2p.priv.raw` or of the file `p2p.priv.path`, which is created if it is missing.

    The p2p process gets the key itself, so that a file that changes while the node runs does not change its peer id.
    Raises SetupError for a key or a static peer that cannot be used."""
    try:
        identity = load_identity(config)
        parse_static_peers(config.static, identity.peer_id)
    except (IdentityFileError, StaticPeerError) as error:
        raise SetupError(str(error)) from None
    return identity
